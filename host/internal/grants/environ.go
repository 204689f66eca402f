package grants

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/environ"
)

// Environ is the host's environment, and what processes get of it under a configuration.
type Environ struct {
	base    []string
	private map[string]bool // variables that only the store or the plugin that reads them gets
	tools   func() []string
}

// NewEnviron applies a configuration to the environment of the host.
func NewEnviron(c *config.Config, base []string) *Environ {
	e := &Environ{base: base, private: map[string]bool{}}
	for _, name := range c.Store.Variables {
		e.private[name] = true
	}
	for _, b := range c.Blocks() {
		for _, name := range b.Variables() {
			e.private[name] = true
		}
	}
	set := c.Environment
	p := environ.Policy{KeepSecrets: !set.DefaultExcludes, Exclude: set.Exclude, Set: set.Set, IncludeOnly: set.IncludeOnly}
	switch set.Inherit {
	case schema.InheritAll:
		p.Inherit = environ.All
	case schema.InheritCore:
		p.Inherit = environ.Core
	}
	// The inputs never change, and each call needs the result more than once.
	e.tools = sync.OnceValue(func() []string {
		return slices.Clip(p.Apply(base, func(name string) bool { return e.private[name] }))
	})
	return e
}

// Tools returns the environment of processes that tools start. The caller must not change it.
func (e *Environ) Tools() []string { return e.tools() }

// User returns the environment of programs that the user named, in the configuration or as a command: everything but the variables
// that are private to plugins and the store.
func (e *Environ) User() []string {
	var out []string
	for _, kv := range e.base {
		if name, _, _ := strings.Cut(kv, "="); !e.private[name] {
			out = append(out, kv)
		}
	}
	return out
}

// Secrets returns the secret values in the environment, including passwords in URLs.
func (e *Environ) Secrets() (out []string) {
	for _, kv := range e.base {
		name, value, _ := strings.Cut(kv, "=")
		// A path is the place of a secret, not a secret. Redacting it would hide all paths below it.
		if (e.private[name] || environ.IsSecret(name)) && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~") {
			out = append(out, value)
			if u, err := url.Parse(value); err == nil && u.User != nil {
				password, _ := u.User.Password()
				out = append(out, password)
			}
		}
	}
	return out
}
