package host

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/prompt/agentsfile"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// baseFor returns the base instructions of a thread that starts with a model.
func (h *Host) baseFor(m *config.Model) string {
	return cmp.Or(m.Instructions, h.opts.Config.Instructions.Text, prompt.Base())
}

// contextSource is the [turn.ContextSource] of a turn. own is the thread's model: a fallback keeps its instructions.
type contextSource struct {
	h     *Host
	r     *running
	id    event.TurnID
	start event.ThreadStarted
	turn  event.TurnStarted
	own   *config.Model
}

// Sections implements [turn.ContextSource].
func (c contextSource) Sections(last *event.Reference) []prompt.Section {
	return c.state().Sections(last)
}

// state returns the current context of the model.
func (c contextSource) state() prompt.State {
	h, r, t := c.h, c.r, c.turn
	r.plugins.SetContext("network", contract.ContextText{Key: "rules", Text: h.rules.DescribeNetwork(t.Sandbox)})
	r.plugins.SetContext("sandbox", contract.ContextText{Key: "denied", Text: grants.Describe(h.opts.Config, t.Sandbox)})
	r.plugins.SetContext("tools", contract.ContextText{Key: "sources", Text: c.sources()})
	permitted, _ := r.thread.Approvals().Permitted(c.id)
	s := prompt.State{
		Base: c.start.Instructions, Instructions: c.start.Instructions, Developer: c.start.DeveloperInstructions, Plugins: h.plugins.Instructions(), Contexts: r.plugins.Contexts(), External: maps.Clone(r.external),
		Agents: prompt.Agents{Dir: t.Cwd, Text: r.agents.Look(t.Cwd).Text}, Environment: environment(t.Cwd, t.Sandbox, h.opts.Config),
		Permissions: event.Permissions{
			Approval: t.Approval, Sandbox: t.Sandbox, WritableRoots: slices.Concat(h.opts.Config.Sandbox.WritableRoots, permitted.Write),
			Network: h.opts.Config.Sandbox.Network || permitted.Network || grants.Proxied(h.opts.Config, t.Sandbox),
		},
	}
	if c.own.Label != c.start.Model && c.own.Instructions != "" { // the model that the thread started with keeps its instructions
		s.Instructions = c.own.Instructions
	}
	return s
}

// maxSaid bounds what one source says of itself in the context, in bytes, so that others have room.
const maxSaid = 4 << 10

// sources returns what sources of tools say of themselves, for a model whose format has no descriptions of namespaces.
func (c contextSource) sources() string {
	m := c.r.sample.Load()
	if m == nil || registry.HasNamespaces(m.Row) {
		return ""
	}
	said := c.h.plugins.Registry().Snapshot().Said()
	var b strings.Builder
	for _, namespace := range slices.Sorted(maps.Keys(said)) {
		s := said[namespace]
		fmt.Fprintf(&b, "The source %q of plugin %s says of the tools of %s:\n%s\n", s.Source, s.Plugin, namespace, history.Truncate(s.Description, history.Policy{Bytes: true, Limit: maxSaid}))
	}
	return strings.TrimSpace(b.String())
}

// Limits of the context that clients attach: tokens of one text, compatible with codex, and number of texts.
const (
	maxExternalTokens = 1000
	maxExternal       = 32
)

// setClientContext stores the context that a client attaches to its user's input. An empty text removes it.
func (r *running) setClientContext(texts map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		_, known := r.external[key]
		switch text := strings.ToValidUTF8(texts[key], "\uFFFD"); {
		case text == "":
			delete(r.external, key)
		case known || len(r.external) < maxExternal:
			if r.external == nil {
				r.external = map[string]string{}
			}
			r.external[key] = history.Truncate(text, history.Policy{Limit: maxExternalTokens})
		}
	}
}

// readAgents reads the files with instructions at the beginning of a turn, and returns new warnings about them. During the turn,
// they are only checked for changes.
func (r *running) readAgents(cwd string) (out []event.Notice) {
	h := r.host
	if r.agents == nil {
		c := h.opts.Config.Instructions
		r.agents = agentsfile.New(agentsfile.Config{
			Home: h.opts.Home, MaxBytes: c.MaxBytes, RootMarkers: c.RootMarkers, Fallbacks: c.Fallbacks, Denied: h.denied,
		})
	}
	for _, w := range r.agents.Read(cwd).Warnings {
		if r.told.First(w.Text) {
			out = append(out, event.Notice{Level: "warning", Text: w.Text, Next: w.Next})
		}
	}
	return out
}

// denied reports whether deny_read denies a path. Commands must not make the host read such a file for them.
func (h *Host) denied(cwd, path string) bool {
	g := grants.For(h.opts.Config, launch.FullAccess, cwd, "")
	g.ReadableRoots = nil
	return len(g.DenyRead) > 0 && box.Reach(g, path) == box.AccessNone
}

func environment(cwd, mode string, c *config.Config) event.Environment {
	now := time.Now()
	e := event.Environment{
		Cwd: cwd, Shell: filepath.Base(cmp.Or(os.Getenv("SHELL"), "sh")), Date: now.Format(time.DateOnly), Timezone: zone(now),
		Network: "disabled", Filesystem: mode,
	}
	if c.Sandbox.Network || mode == launch.FullAccess || grants.Proxied(c, mode) {
		e.Network = "enabled"
	}
	return e
}

// zone returns the name of the time zone, for example Europe/Berlin, or its abbreviation if the system doesn't say.
func zone(now time.Time) string {
	if name := now.Location().String(); name != "Local" && name != "" {
		return name
	}
	if target, err := os.Readlink("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(target, "/zoneinfo/"); ok {
			return name
		}
	}
	name, _ := now.Zone()
	return name
}
