package host

import (
	"net/url"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/redact"
)

// Environment is what the processes of tools start from under a configuration.
func Environment(c *config.Config, base []string) []string {
	return environmentPolicy(c.Environment).Apply(base, privateTo(c))
}

func environmentPolicy(c config.Environment) environ.Policy {
	p := environ.Policy{KeepSecrets: !c.DefaultExcludes, Exclude: c.Exclude, Set: c.Set, IncludeOnly: c.IncludeOnly}
	switch c.Inherit {
	case schema.InheritAll:
		p.Inherit = environ.All
	case schema.InheritCore:
		p.Inherit = environ.Core
	}
	return p
}

// privateTo says which variables the store or some plugin's block reads: no other process gets them.
func privateTo(c *config.Config) func(name string) bool {
	private := map[string]bool{}
	for _, name := range c.Store.Variables {
		private[name] = true
	}
	for _, b := range c.Blocks() {
		for _, name := range b.Variables() {
			private[name] = true
		}
	}
	return func(name string) bool { return private[name] }
}

// known makes the secrets known that the host's own environment holds.
func (h *Host) known() {
	for _, kv := range h.opts.Environ {
		name, value, _ := strings.Cut(kv, "=")
		// A path says where a secret lies. It is none, and everything below it would look like one.
		if (h.private(name) || environ.IsSecret(name)) && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~") {
			h.opts.Redactor.Add(value)
			if u, err := url.Parse(value); err == nil && u.User != nil {
				password, _ := u.User.Password()
				h.opts.Redactor.Add(password)
			}
		}
	}
}

// redactor takes secrets out of what calls show; nil: the configuration does not want it.
func (h *Host) redactor() *redact.Redactor {
	if !h.opts.Config.Redaction.Values {
		return nil
	}
	return h.opts.Redactor
}

// toolEnvironment is what a tool's process starts from.
func (h *Host) toolEnvironment(event.ThreadID) []string {
	return h.environment()
}

// userEnvironment is what programs start from that the user named himself, in the configuration or as a command of his own: all
// that he has, without what only providers may know.
func (h *Host) userEnvironment(event.ThreadID) []string {
	var out []string
	for _, kv := range h.opts.Environ {
		if name, _, _ := strings.Cut(kv, "="); !h.private(name) {
			out = append(out, kv)
		}
	}
	return out
}
