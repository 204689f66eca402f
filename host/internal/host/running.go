package host

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/codemode"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/once"
	"github.com/gantry-agent/gantry/host/internal/pluginthread"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/prompt/agentsfile"
	"github.com/gantry-agent/gantry/host/internal/scratch"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/hashicorp/go-hclog"
)

// running is a thread that runs in this host.
type running struct {
	host   *Host
	thread *thread.Thread

	// Used only by the thread's turns, one after the other.
	broken   map[string]event.Notice // published notices about plugins that can't be used
	agents   *agentsfile.Reader      // files with instructions
	rules    string                  // the published error of the rules files
	external map[string]string       // context that clients attach to their users' input

	plugins *pluginthread.Thread
	views   *view.Sessions
	role    child.Role
	hooks   *hook.Thread  // nil: none
	below   *usage.Meter  // counts what its agents use; nil: it is an agent
	team    chan struct{} // closed when it is known what became of the thread's agents; nil: it is
	end     context.CancelCauseFunc
	over    chan struct{}                  // closed when the thread has ended and is removed
	sample  atomic.Pointer[modelset.Model] // the model that was asked last
	outputs scratch.Outputs
	tools   *hosttool.Client // that clients implement
	code    *codemode.Thread // scripts; nil: no model is offered them
	goal    *goal.Keeper     // nil: the thread can't have a goal
	told    once.Set         // published warnings: by their text, or by a key for a file, a rule or the hooks

	publishing sync.Mutex // held while states of sources are published

	// Guarded by the host's mutex.
	starting  bool                              // Run has not been called, so there is no first event
	early     []event.Body                      // events to publish after that
	storeDown bool                              // a notice that the store is degraded was published
	sources   map[[2]string]event.SourceChanged // the published states of sources of tools, by plugin and name
	supplied  bool                              // all required sources were ready for the first turn
}

// newRunning returns a thread that is not yet known to the host. context is what the model has been told.
func newRunning(h *Host, t *thread.Thread, role child.Role, context *event.Reference) *running {
	r := &running{host: h, thread: t, role: role, below: agentsMeter(h, t), sources: map[[2]string]event.SourceChanged{}}
	r.restore(context)
	parent, root := family(h, t)
	r.plugins = pluginthread.New(pluginthread.Config{
		Parent: parent, Root: root, Agent: agentPath(t),
		Tokens: h.tokens, Launcher: h.launcher, Backend: h.plugins.Backend, Redactor: h.redactor(), Logger: h.log,
		Denial: func(output string) *event.Denial {
			permitted, _ := t.Approvals().Permitted("")
			cwd := t.Settings().Cwd
			g := grants.WithPermissions(grants.For(h.opts.Config, r.sandbox(), cwd, ""), permitted)
			return grants.Denial(h.opts.Environ, g, cwd, output)
		},
	}, t)
	r.code = scripts(h.opts, t, r.plugins.Ended)
	r.views = view.New(view.Config{
		Holder:   r.plugins.Holder,
		Open:     r.openView,
		Publish:  r.publishControl,
		Typed:    func(plugin, session, text string) { h.tokens.Typed(plugin, t.ID(), session, text) },
		Redactor: h.redactor(),
	})
	return r
}

// family returns the thread that a thread works for, and the first of those above it, as far as they run. Without them, it is the root.
func family(h *Host, t *thread.Thread) (parent, root event.ThreadID) {
	r, err := h.running(t.Started().Parent)
	if err != nil {
		return "", t.ID()
	}
	parent = r.thread.ID()
	_, root = family(h, r.thread)
	return parent, root
}

// agentPath is what the agents of its root call the agent whose thread it is; empty: it is no agent's.
func agentPath(t *thread.Thread) string {
	if a := t.Started().Agent; a != nil {
		return a.Path
	}
	return ""
}

// offer gives the thread the tools of its clients.
func (r *running) offer(tools []event.ClientTool) {
	var err error
	if r.tools, err = hosttool.NewClient(tools, keepImages(r.host.store)); err != nil { // of another version, whose rules were different
		r.host.log.Warn("tools of a client left out", "thread", r.thread.ID(), "err", err)
	}
}

// restore sets the context of clients to what the model has been told, for example after a revert.
func (r *running) restore(context *event.Reference) { r.external = prompt.External(context) }

// sandbox returns the sandbox mode that is set for the thread.
func (r *running) sandbox() string {
	return cmp.Or(r.thread.Settings().Sandbox, r.host.opts.Config.Sandbox.Mode)
}

// publish publishes events outside of a turn. It works until the thread has ended, even while the host is closing.
func (r *running) publish(bodies ...event.Body) {
	if len(bodies) == 0 {
		return
	}
	r.host.mu.Lock()
	if r.starting {
		r.early = append(r.early, bodies...)
		r.host.mu.Unlock()
		return
	}
	r.host.mu.Unlock()
	if _, err := r.thread.Publish(context.WithoutCancel(r.host.life), "", bodies...); err != nil {
		level := hclog.Warn
		if errors.Is(err, thread.ErrClosed) {
			level = hclog.Debug
		}
		r.host.log.Log(level, "event not published", "thread", r.thread.ID(), "err", err)
	}
}

// publishEarly publishes what was published while the thread was starting.
func (r *running) publishEarly() {
	r.host.mu.Lock()
	early := r.early
	r.starting, r.early = false, nil
	r.host.mu.Unlock()
	r.publish(early...)
}

// firstModel returns the model of a thread that was not asked yet.
func (r *running) firstModel(ctx context.Context) (*modelset.Model, error) {
	own, err := r.model(r.thread.Settings().Model)
	if err != nil {
		return nil, err
	}
	m, err := r.host.models.Chain(r.thread.ID(), own).Next(ctx)
	if err == nil {
		r.sample.Store(m)
	}
	return m, err
}

// use sets the model that answers for the thread, and returns the notices about it that were not published before.
func (r *running) use(m *modelset.Model) (out []event.Notice) {
	r.sample.Store(m)
	for _, n := range m.Notices {
		if r.told.First(n.Text) {
			out = append(out, n)
		}
	}
	return out
}
