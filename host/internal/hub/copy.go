package hub

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// resumeCopy loads a copy of a thread into an ephemeral workspace, unless it is there already.
func (h *Hub) resumeCopy(ctx context.Context, id event.ThreadID, p ResumeParams) (*Thread, error) {
	h.mu.Lock()
	l := h.mu.threads[id]
	h.mu.Unlock()
	if l != nil && l.ephemeral() && p.Fork == nil {
		return l.facade, nil
	}
	from, err := h.storeOf(ctx, id)
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
	t, err := resumeIn(ctx, s, from, info.ID, p.Fork)
	if err != nil {
		h.leave(s)
		return nil, err
	}
	loaded, err := h.register(s, t, nil)
	if err != nil {
		return nil, err
	}
	return loaded.facade, loaded.configure(ctx, p.Settings)
}

func resumeIn(ctx context.Context, s *space, from *store.Store, id event.ThreadID, f *Fork) (*thread.Thread, error) {
	copied, err := copyThread(ctx, from, s.host.Store(), id, f)
	if err != nil {
		return nil, err
	}
	return s.host.ResumeThread(ctx, copied)
}

// copyThread copies a thread to another store, where it may be already, and returns the ID of the copy or of its fork.
func copyThread(ctx context.Context, from, to *store.Store, id event.ThreadID, f *Fork) (event.ThreadID, error) {
	_, err := to.Thread(ctx, string(id))
	if _, missing := errors.AsType[*store.NotFoundError](err); missing {
		events, written := io.Pipe()
		go func() { // owned by the caller: exits with the import, which closes its end of the pipe
			written.CloseWithError(from.Export(ctx, id, written))
		}()
		_, err = to.Import(ctx, events)
		events.Close()
	}
	if err != nil || f == nil {
		return id, err
	}
	return branch.Fork(ctx, to, id, f.point(), f.Name)
}
