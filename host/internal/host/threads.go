package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/features"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/once"
	"github.com/gantry-agent/gantry/host/internal/pluginthread"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/prompt/agentsfile"
	"github.com/gantry-agent/gantry/host/internal/scratch"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usage"
)

// running is a thread that runs in this host.
type running struct {
	thread   *thread.Thread
	broken   map[string]event.Notice // what its people were told of plugins that can't be used; by its turns only
	agents   *agentsfile.Reader      // files of instructions, as its turns saw them; by its turns only
	rules    string                  // what they were told is wrong with the rules; by its turns only
	external map[string]string       // what clients say beside their users' words; by its turns only
	plugins  *pluginthread.Thread
	lock     *store.ThreadLock
	role     child.Role
	hooks    *hook.Thread // nil: none
	end      context.CancelCauseFunc
	over     chan struct{}                  // closed when nothing of it is left
	sample   atomic.Pointer[modelset.Model] // that was asked last
	outputs  scratch.Outputs
	// storeDown: it was told that the store does not take events. Guarded by the host's mutex.
	storeDown bool
	// sources are the states of sources of tools that were published in it, by plugin and name; supplied that all required ones
	// were ready for its first turn. Guarded by the host's mutex.
	sources  map[[2]string]event.SourceChanged
	supplied bool
	// told are the warnings that were published in it: by their text, or for a file, a rule or the hooks by a key of their own.
	told once.Set
}

// running finds a thread that runs here.
func (h *Host) running(id event.ThreadID) (*running, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.mu.threads[id]; r != nil {
		return r, nil
	}
	return nil, thread.ErrClosed
}

// newRunning goes on from what the model was told.
func newRunning(t *thread.Thread, told *event.Reference) *running {
	r := &running{thread: t, sources: map[[2]string]event.SourceChanged{}}
	r.hears(told)
	return r
}

// hears takes what the model was told for what clients said.
func (r *running) hears(told *event.Reference) {
	r.external = prompt.External(told)
}

// use makes a model the one that answers for the thread, and returns the notices about it that the thread has not had.
func (r *running) use(m *modelset.Model) (out []event.Notice) {
	r.sample.Store(m)
	for _, n := range m.Notices {
		if r.told.First(n.Text) {
			out = append(out, n)
		}
	}
	return out
}

// connect prepares a thread for plugins.
func (h *Host) connect(t *thread.Thread) *pluginthread.Thread {
	return pluginthread.New(pluginthread.Config{
		Tokens: h.tokens, Launcher: h.launcher, Backend: h.plugins.Backend, Redactor: h.redactor(), Logger: h.log,
		Denial: func(output string) *event.Denial {
			permitted, _ := t.Approvals().Permitted("")
			cwd := t.Settings().Cwd
			g := grants.WithPermissions(grants.For(h.opts.Config, h.sandboxOf(t), cwd, ""), permitted)
			return grants.Denial(h.opts.Environ, g, cwd, output)
		},
	}, t)
}

// Params choose how a thread begins.
type Params struct {
	Cwd    string
	Model  string // label of a model block, or PROVIDER/NAME; "": the default
	Source string // the door: "exec", "tui", ...
	Name   string
}

// StartThread begins a new thread. It runs until the host ends.
func (h *Host) StartThread(ctx context.Context, p Params) (*thread.Thread, error) {
	model, err := h.models.Find(cmp.Or(p.Model, h.opts.Config.DefaultModel))
	if err != nil {
		return nil, err
	}
	start := event.ThreadStarted{
		Cwd: p.Cwd, Model: model.Label, Provider: model.Provider, ModelName: model.Name, HostVersion: h.opts.Version,
		Source: p.Source, Instructions: h.baseFor(model),
	}
	return h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start}, child.Role{})
}

// ResumeThread goes on with a stored thread, rebuilt from its log. What a host that died left open is closed first.
func (h *Host) ResumeThread(ctx context.Context, id event.ThreadID) (*thread.Thread, error) {
	if t, ok := h.Thread(id); ok {
		return t, nil
	}
	// The writer lock comes first: the log must not grow while it is read.
	lock, err := h.store.LockThread(ctx, id)
	if err != nil {
		return nil, err
	}
	state, err := h.rebuild(ctx, id)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resume thread %s: %w", id, err), lock.Release())
	}
	crashpoint.At(crashpoint.ResumeRead, "")
	return h.run(thread.Config{ID: id, State: state}, lock, child.Role{})
}

// rebuild reads what the log says of a thread that is to be gone on with.
func (h *Host) rebuild(ctx context.Context, id event.ThreadID) (thread.State, error) {
	info, err := h.store.Thread(ctx, string(id))
	if err != nil {
		return thread.State{}, err
	}
	if !info.Archived.IsZero() {
		return thread.State{}, &branch.ArchivedError{Thread: id}
	}
	return branch.Resume(ctx, h.store, id)
}

func (h *Host) launchThread(ctx context.Context, cfg thread.Config, as child.Role) (*thread.Thread, error) {
	lock, err := h.store.LockThread(ctx, cfg.ID)
	if err != nil {
		return nil, err
	}
	return h.run(cfg, lock, as)
}

func (h *Host) run(cfg thread.Config, lock *store.ThreadLock, as child.Role) (*thread.Thread, error) {
	threads := h.store
	if h.opts.Ephemeral { // this store does not know the threads of other hosts
		threads = nil
	}
	ln, err := appserver.Listen(h.life, h.folders.base, cfg.ID, threads, h.log)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	cfg.Budget = usage.Budget(h.opts.Config.Budget)
	cfg.Features = features.All()
	cfg.Sink, cfg.Engine, cfg.Logger = h.store, h, h.log.Named("thread").With("thread", cfg.ID)
	t := thread.New(cfg)
	r := newRunning(t, cfg.State.ContextState)
	life, end := context.WithCancelCause(h.life)
	r.lock, r.role, r.end, r.over = lock, as, end, make(chan struct{})
	r.plugins = h.connect(t)
	r.hooks = h.hookThread(t, cfg, as)
	h.mu.Lock()
	h.mu.threads[cfg.ID] = r
	h.mu.Unlock()
	h.watchFolders(t, as)
	started := h.begin(func() { // ends with the host
		ctx := life
		defer close(r.over)
		defer end(nil)
		r.plugins.Begin(ctx)
		// Clients stay to the end: the last events of the thread are for them, too.
		serving, closeDoors := context.WithCancel(context.WithoutCancel(ctx))
		defer closeDoors()
		var doors sync.WaitGroup
		doors.Go(func() { h.serve(serving, ln, t) })
		if err := t.Run(ctx); err != nil && ctx.Err() == nil {
			h.log.Error("thread ended", "thread", cfg.ID, "err", err)
		}
		if h.guardian != nil {
			h.guardian.End(t.ID())
		}
		r.endHooks(ctx)
		// The socket goes before the lock: its file is the next holder's from then on.
		closeDoors()
		doors.Wait()
		h.mu.Lock()
		delete(h.mu.threads, cfg.ID)
		h.mu.Unlock()
		if err := lock.Release(); err != nil {
			h.log.Warn("thread lock not released", "thread", cfg.ID, "err", err)
		}
	})
	if !started {
		end(nil)
		h.mu.Lock()
		delete(h.mu.threads, cfg.ID)
		h.mu.Unlock()
		return nil, errors.Join(thread.ErrClosed, ln.Close(), lock.Release())
	}
	return t, nil
}

// End implements [thread.Engine]: plugins forget the thread, and its processes end.
func (h *Host) End(ctx context.Context, id event.ThreadID) {
	h.mu.Lock()
	r := h.mu.threads[id]
	h.mu.Unlock()
	if r != nil {
		r.plugins.End(ctx)
	}
	// A bound of its own: a plugin that hangs must not cost the processes their end.
	ctx, cancel := context.WithTimeout(ctx, closeBound/2)
	defer cancel()
	if err := h.launcher.EndThread(ctx, string(id)); err != nil {
		h.log.Warn("processes of a thread not ended", "thread", id, "err", err)
		return
	}
	h.scratch.Remove(id)
}
