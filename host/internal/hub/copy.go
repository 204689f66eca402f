package hub

import (
	"cmp"
	"context"
	"errors"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// resumeCopy loads a copy of a thread into an ephemeral workspace, unless it is there already.
func (h *Hub) resumeCopy(ctx context.Context, id event.ThreadID, p ResumeParams) (*Thread, error) {
	if !h.begin() {
		return nil, errClosed
	}
	defer h.work.Done()
	source := h.sourceOf
	if p.Fork == nil {
		source = h.storeOf              // nobody runs the thread
		release, err := h.hold(ctx, id) // another caller gets the same copy
		if err != nil {
			return nil, err
		}
		defer release()
		h.mu.Lock()
		l := h.mu.threads[id]
		h.mu.Unlock()
		if l != nil && l.ephemeral() {
			return l.facade, nil
		}
	}
	from, err := source(ctx, id)
	if err != nil {
		return nil, err
	}
	info, err := from.Thread(ctx, string(id))
	if err != nil {
		return nil, err
	}
	w := p.Workspace
	w.Dir = cmp.Or(w.Dir, p.Settings.Cwd, info.Cwd)
	s, err := h.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	loaded, err := h.loadCopy(ctx, s, from, info.ID, p.Fork)
	if err != nil {
		return nil, err
	}
	return loaded.facade, loaded.configure(ctx, p.Settings)
}

// sourceOf returns the store that has a thread with all that has happened in it so far.
func (h *Hub) sourceOf(ctx context.Context, id event.ThreadID) (*store.Store, error) {
	s, err := h.storeOf(ctx, id)
	if err != nil {
		return nil, err
	}
	t, unreached := h.Reach(ctx, id)
	if unreached != nil || !t.Remote() {
		return s, nil
	}
	info, err := s.Thread(ctx, string(id))
	if _, missing := errors.AsType[*store.NotFoundError](err); missing {
		return nil, hint.With(err, "only the process that runs an ephemeral thread can copy it: fork it without making the fork ephemeral")
	}
	if err != nil {
		return nil, err
	}
	if r, ok := t.kind().(*relay); ok {
		err = r.flush(ctx, info.Seq)
	}
	return s, err
}

// flush returns when the log has all events of the thread so far. It has those up to a number.
func (r *relay) flush(ctx context.Context, upto uint64) error {
	c, leave, err := r.subscription()
	if err != nil {
		return err
	}
	defer leave()
	// The owner replays what comes after the number from the log, for which it has to be there.
	_, err = c.Subscribe(ctx, threadsocket.SubscribeParams{After: upto, Only: threadsocket.OnlyNone})
	return r.asked(err)
}

// loadCopy copies a thread to the store of an ephemeral host, or makes a fork of it there, and loads it.
func (h *Hub) loadCopy(ctx context.Context, s *space, from *store.Store, id event.ThreadID, f *Fork) (*local, error) {
	to := s.host.Store()
	var err error
	if f != nil {
		id, err = branch.Fork(ctx, from, to, id, f.point(), f.Name)
	} else if _, err = to.Thread(ctx, string(id)); err != nil {
		if _, missing := errors.AsType[*store.NotFoundError](err); missing {
			err = from.CopyTo(ctx, to, id)
		}
	}
	var t *thread.Thread
	if err == nil {
		t, err = s.host.ResumeThread(ctx, id)
	}
	if err != nil {
		h.leave(s)
		return nil, err
	}
	return h.register(s, t, nil)
}
