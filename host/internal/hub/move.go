package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// attendance is a person or a client who can answer questions of a thread. It survives a move of the thread.
type attendance struct {
	as    presence
	leave func() // guarded by the thread's mutex
}

// presence says which questions can be answered.
type presence int

const (
	asPerson presence = iota + 1
	asClient          // calls of the client's tools
)

// current returns how the thread is reached now. During a move, it waits for the end of it.
func (t *Thread) current(ctx context.Context) (runner, error) {
	for {
		t.mu.Lock()
		r, moving := t.mu.runner, t.mu.moving
		t.mu.Unlock()
		if moving == nil {
			return r, nil
		}
		select {
		case <-moving:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// enter moves the thread to the host of a folder before its settings change to that folder, because another configuration may apply
// there. It does nothing if dir is empty.
func (t *Thread) enter(ctx context.Context, dir string) (runner, error) {
	r, err := t.current(ctx)
	if err != nil || dir == "" {
		return r, err
	}
	l, ok := r.(*local)
	if !ok {
		return r, nil // the owner decides
	}
	w, err := l.workspaceIn(ctx, dir)
	if err != nil || w == nil {
		return r, err
	}
	if l.ephemeral() {
		return nil, hint.New("an ephemeral thread can't move to a folder with another configuration", "start a thread there")
	}
	if err := l.thread.CheckIdle(ctx); errors.Is(err, thread.ErrBusy) {
		return nil, hint.With(fmt.Errorf("the thread can't move to a folder with another configuration: %w", err), "wait for the end of the turn, or interrupt it")
	} else if err != nil {
		return nil, err
	}
	return t.move(ctx, l, *w)
}

// workspaceIn returns the workspace of the thread in another folder; nil: its host is the right one.
func (l *local) workspaceIn(ctx context.Context, dir string) (*Workspace, error) {
	if dir == l.thread.Settings().Cwd {
		return nil, nil
	}
	w := l.space.workspace
	w.Dir = dir
	if err := w.check(); err != nil {
		return nil, err
	}
	cfg, err := l.hub.cfg.Load(ctx, w)
	if err != nil || w.key(cfg.Digest()) == l.space.key {
		return nil, err
	}
	return &w, nil
}

// move unloads the thread and loads it into the host of another workspace. Followers and people who attend notice nothing. Nothing
// changes if that host can't be opened; after a later failure, the thread is not loaded any more.
func (t *Thread) move(ctx context.Context, from *local, w Workspace) (runner, error) {
	h := from.hub
	if !h.begin() {
		return nil, errClosed
	}
	defer h.work.Done()
	s, err := h.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	defer h.leave(s)
	t.mu.Lock()
	if t.mu.moving != nil || t.mu.runner != from {
		t.mu.Unlock()
		return t.current(ctx) // another caller has been faster
	}
	moving := make(chan struct{})
	t.mu.moving = moving
	t.mu.Unlock()
	settings := from.thread.Settings()
	ctx = context.WithoutCancel(ctx) // half a move would lose the thread
	if err = h.Unload(ctx, t.id); err != nil {
		return nil, err // never: ctx has no end
	}
	to, err := h.loadIn(ctx, w, t.id, t)
	if err == nil {
		// They belong to the host, so they don't come from the log.
		err = to.configure(ctx, event.Settings{Cwd: w.Dir, Approval: settings.Approval, Sandbox: settings.Sandbox})
	}
	t.mu.Lock()
	if to != nil {
		t.mu.runner = to
		for a := range t.mu.attending {
			a.leave()
			a.leave, _ = to.attend(ctx, a.as) // a thread of this process: always nil
		}
	}
	t.mu.moving = nil
	close(moving)
	t.mu.Unlock()
	if to == nil {
		h.mu.Lock()
		delete(h.mu.moving, t.id)
		h.mu.Unlock()
		t.end()
		h.monitor.ended(t.id)
		return nil, err
	}
	return to, err
}

// moves reports whether the thread is being moved.
func (t *Thread) moves() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.moving != nil
}

// end closes the channel of Done.
func (t *Thread) end() { t.over.Do(func() { close(t.done) }) }

// Attend says that a person can answer the thread's questions and stop it, until leave is called. Without anyone attending, questions
// are refused. A server whose clients may come back keeps attending while they are away, so that questions wait for them.
func (t *Thread) Attend(ctx context.Context) (leave func(), err error) {
	return t.attend(ctx, asPerson)
}

// ServeTools says that a client runs the tools that the thread was started with, until leave is called. Without any, calls of these tools
// fail, and those that are waiting do so when the last one leaves.
func (t *Thread) ServeTools(ctx context.Context) (leave func(), err error) {
	return t.attend(ctx, asClient)
}

func (t *Thread) attend(ctx context.Context, as presence) (leave func(), err error) {
	for {
		r, err := t.current(ctx)
		if err != nil {
			return nil, err
		}
		attends, err := r.attend(ctx, as)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		if t.mu.runner != r || t.mu.moving != nil { // it has moved in the meantime
			t.mu.Unlock()
			attends()
			continue
		}
		a := &attendance{as, attends}
		t.mu.attending[a] = struct{}{}
		t.mu.Unlock()
		return sync.OnceFunc(func() {
			t.mu.Lock()
			delete(t.mu.attending, a)
			leave := a.leave
			t.mu.Unlock()
			leave()
		}), nil
	}
}
