package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/features"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/usage"
)

// running finds a thread that runs in this host.
func (h *Host) running(id event.ThreadID) (*running, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.mu.threads[id]; r != nil {
		return r, nil
	}
	return nil, thread.ErrClosed
}

// all returns the threads that run in this host.
func (h *Host) all() []*running {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.mu.threads))
}

// Params are the parameters of a new thread.
type Params struct {
	Cwd    string
	Model  string // label of a model block, or PROVIDER/NAME; "": the default model
	Source string // the front end: "exec", "tui", ...
	Name   string
	// Change are the settings of the first turn and later ones, except for the model and the folder.
	Change thread.Change
	// Instructions replace the model's base instructions; "": they apply. DeveloperInstructions are added to the context.
	Instructions, DeveloperInstructions string
	// Tools are tools that clients of the thread implement.
	Tools []event.ClientTool
}

// StartThread starts a new thread, which runs until the host closes.
func (h *Host) StartThread(ctx context.Context, p Params) (*thread.Thread, error) {
	model, err := h.models.Find(cmp.Or(p.Model, h.opts.Config.DefaultModel))
	if err != nil {
		return nil, err
	}
	p.Change.Model, p.Change.Cwd = "", ""
	if err := h.Check(ctx, nil, p.Change); err != nil {
		return nil, err
	}
	if p.Name != "" {
		if p.Name, err = branch.Name(p.Name); err != nil {
			return nil, err
		}
	}
	if _, err := hosttool.NewClient(p.Tools, keepImages(h.store)); err != nil {
		return nil, err
	}
	start := event.ThreadStarted{
		Cwd: p.Cwd, Model: model.Label, Provider: model.Provider, ModelName: model.Name, HostVersion: h.opts.Version,
		Source: p.Source, Instructions: cmp.Or(p.Instructions, h.baseFor(model)), DeveloperInstructions: p.DeveloperInstructions, Tools: p.Tools,
		Ephemeral: h.opts.Ephemeral,
	}
	t, err := h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start}, child.Role{})
	if err != nil {
		return nil, err
	}
	if err := setUp(ctx, t, p); err != nil {
		h.CloseThread(t.ID(), thread.ErrClosed)
		return nil, err
	}
	return t, nil
}

// setUp gives a new thread its settings and its name, before any client knows it.
func setUp(ctx context.Context, t *thread.Thread, p Params) error {
	if err := t.Opened(ctx); err != nil {
		return err
	}
	if err := t.Configure(ctx, p.Change); err != nil || p.Name == "" {
		return err
	}
	_, err := t.Publish(ctx, "", event.ThreadNamed{Name: p.Name})
	return err
}

// ResumeThread continues a stored thread from its log. Calls and turns that a killed host left open are closed first.
func (h *Host) ResumeThread(ctx context.Context, id event.ThreadID) (*thread.Thread, error) {
	if t, ok := h.Thread(id); ok {
		return t, nil
	}
	// Take the writer lock first: the log must not grow while it is read.
	lock, err := h.store.LockThread(ctx, id)
	if err != nil {
		return nil, err
	}
	state, err := rebuild(ctx, h.store, id)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resume thread %s: %w", id, err), lock.Release())
	}
	crashpoint.At(crashpoint.ResumeRead, "")
	return h.run(thread.Config{ID: id, State: state}, lock, child.Role{})
}

// rebuild reads the state of a thread from the log.
func rebuild(ctx context.Context, s *store.Store, id event.ThreadID) (thread.State, error) {
	info, err := s.Thread(ctx, string(id))
	if err != nil {
		return thread.State{}, err
	}
	if !info.Archived.IsZero() {
		return thread.State{}, &branch.ArchivedError{Thread: id}
	}
	return branch.Resume(ctx, s, id)
}

// launchThread locks and runs a new thread.
func (h *Host) launchThread(ctx context.Context, cfg thread.Config, as child.Role) (*thread.Thread, error) {
	lock, err := h.store.LockThread(ctx, cfg.ID)
	if err != nil {
		return nil, err
	}
	return h.run(cfg, lock, as)
}

// run runs a thread in the background and serves its clients. It owns the lock.
func (h *Host) run(cfg thread.Config, lock *store.ThreadLock, as child.Role) (*thread.Thread, error) {
	h.sweep.Do(func() { // once, because it looks at the sockets of all threads
		if !h.opts.Ephemeral { // an ephemeral host's store does not know the threads of other hosts
			threadsocket.Sweep(h.life, h.folders.base, h.store, h.log)
		}
	})
	cfg.Budget = usage.Budget(h.opts.Config.Budget)
	above := aboveAgent(h, &cfg, &as)
	cfg.Features, cfg.QuestionTimeout = features.All(), h.opts.Config.Approval.Timeout
	keep := withGoal(h, &cfg, as)
	cfg.Sink, cfg.Engine, cfg.Observe, cfg.Logger = h.store, h, h.opts.Shared.Observe, h.log.Named("thread").With("thread", cfg.ID)
	t := thread.New(cfg)
	above(t)
	shut, err := h.sockets.Open(h.reachable(t))
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	r := newRunning(h, t, as, cfg.State.ContextState)
	keep(r)
	r.offer(t.Started().Tools)
	life, end := context.WithCancelCause(h.life)
	r.end, r.over, r.starting = end, make(chan struct{}), true
	r.openHooks(cfg.Start != nil)
	if hasAgents(t) {
		r.team = make(chan struct{})
	}
	h.mu.Lock()
	h.mu.threads[cfg.ID] = r
	h.mu.Unlock()
	r.watchFolders()
	started := h.begin(func() { // ends with the host
		ctx := life
		defer close(r.over)
		defer end(nil)
		r.plugins.Begin(ctx)
		if err := t.Run(ctx); err != nil && ctx.Err() == nil {
			h.log.Error("thread ended", "thread", cfg.ID, "err", err)
		}
		if r.goal != nil {
			r.goal.Close()
		}
		if h.guardian != nil {
			h.guardian.End(t.ID())
		}
		h.agents.End(cfg.ID)
		r.endHooks(ctx)
		// Clients are served until the thread has ended, to receive its last events. The link to the socket is removed before the lock
		// is released: then it belongs to the next holder.
		shut()
		h.mu.Lock()
		delete(h.mu.threads, cfg.ID)
		h.mu.Unlock()
		if err := lock.Release(); err != nil {
			h.log.Warn("thread lock not released", "thread", cfg.ID, "err", err)
		}
		if h.opts.Shared.Ended != nil {
			h.opts.Shared.Ended(cfg.ID)
		}
	})
	if !started {
		end(nil)
		h.mu.Lock()
		delete(h.mu.threads, cfg.ID)
		h.mu.Unlock()
		shut()
		return nil, errors.Join(thread.ErrClosed, lock.Release())
	}
	r.publishEarly()
	r.resumeAgents()
	return t, nil
}

// CloseThread ends a thread that runs in this host and waits until it has ended. A running turn ends as interrupted by cause. The
// host continues.
func (h *Host) CloseThread(id event.ThreadID, cause error) {
	if r, err := h.running(id); err == nil && r.over != nil { // otherwise it is only being prepared
		r.end(cause)
		<-r.over
	}
}

// End implements [thread.Engine]. Plugins forget the thread, and its processes are ended.
func (h *Host) End(ctx context.Context, id event.ThreadID) {
	if r, err := h.running(id); err == nil {
		r.views.End()
		if r.code != nil {
			r.code.End()
		}
		r.plugins.End(ctx)
	}
	// A separate timeout: a plugin that hangs must not prevent processes from being ended.
	ctx, cancel := context.WithTimeout(ctx, closeBound/2)
	defer cancel()
	h.proxies.forget(id)
	if err := h.launcher.EndThread(ctx, string(id)); err != nil {
		h.log.Warn("processes of a thread not ended", "thread", id, "err", err)
		return
	}
	h.scratch.Remove(id)
}

// reachable is what clients reach of a thread.
func (h *Host) reachable(t *thread.Thread) threadsocket.Thread {
	return threadsocket.Thread{
		Thread: t,
		Events: func(ctx context.Context, after uint64) iter.Seq2[event.Event, error] {
			return h.store.Events(ctx, t.ID(), after)
		},
		Committed: func(ctx context.Context, seq uint64) error { return h.store.AwaitCommit(ctx, t.ID(), seq) },
		Library:   h.library, Shell: h.shell, Reviewer: h.reviewer, Plugins: h.plugins,
		Goal:     func() (*goal.Keeper, error) { return GoalOf(h, t.ID()) },
		CallTool: func(ctx context.Context, c ToolCall) (ToolResult, error) { return CallTool(ctx, h, t, c, false) },
	}
}

// openChild is the [child.Opener] of this host.
func (h *Host) openChild(ctx context.Context, parent *thread.Thread, s child.Spec) (*thread.Thread, func(), error) {
	start := event.ThreadStarted{
		Cwd: parent.Settings().Cwd, Model: s.Model.Model, Provider: s.Model.Provider, ModelName: s.Model.ModelName, HostVersion: h.opts.Version,
		Source: s.Source, Parent: parent.ID(), Instructions: s.Instructions,
	}
	t, err := h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start, Meter: parent.Meter()}, s.Role)
	if err != nil {
		return nil, nil, err
	}
	return t, func() { h.CloseThread(t.ID(), thread.ErrClosed) }, nil
}
