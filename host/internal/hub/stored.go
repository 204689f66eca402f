package hub

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// Plain data of the store.
type (
	// Info describes a stored thread.
	Info = store.ThreadInfo
	// TurnInfo describes a turn of a stored thread.
	TurnInfo = store.TurnInfo
	// Filter selects threads.
	Filter = store.Filter
	// Cursor is a position in a listing of threads.
	Cursor = store.Cursor
	// Hit is a thread that matches a search.
	Hit = store.Hit
	// History reads parts of a thread's history, and Window selects them.
	History = store.History
	Window  = store.Window
	// ReadState says how far the user has read a thread.
	ReadState = store.ReadState
)

// What listings are sorted by.
const (
	ByUpdated = store.ByUpdated
	ByCreated = store.ByCreated
)

// ParseCursor parses the text of a cursor.
func ParseCursor(s string) (Cursor, error) { return store.ParseCursor(s) }

// Choices of answers to approvals.
const (
	Approve        = approval.Approve
	ApproveTurn    = approval.ApproveTurn    // also calls with the same key, until the turn ends
	ApproveSession = approval.ApproveSession // also calls with the same key, as long as the thread runs
	ApproveAlways  = approval.ApproveAlways  // also write the rule that the question shows
	Deny           = approval.Deny           // the turn continues
	DenyAlways     = approval.DenyAlways     // also write the denying rule that the question shows
	Abort          = approval.Abort          // deny, and interrupt the turn
	Unusable       = approval.Unusable       // what the client has answered means nothing: the call fails
)

// Reader reads what is stored of threads, whether they run or not.
type Reader struct{ hub *Hub }

// Info describes a thread, found by its ID, by a unique prefix of the ID, or by its name. Ephemeral threads are found by their ID while
// they are loaded.
func (r Reader) Info(ctx context.Context, query string) (Info, error) {
	s, err := r.storeOf(ctx, event.ThreadID(query))
	if err != nil {
		return Info{}, err
	}
	return s.Thread(ctx, query)
}

// storeOf returns the store that has a thread. If the thread runs here, the store is up to date.
func (r Reader) storeOf(ctx context.Context, id event.ThreadID) (*store.Store, error) {
	r.hub.mu.Lock()
	l := r.hub.mu.threads[id]
	r.hub.mu.Unlock()
	if l == nil {
		return r.hub.stored()
	}
	if err := l.thread.Flush(ctx); err != nil {
		r.hub.log.Debug("log of a thread may be incomplete", "thread", id, "err", err)
	}
	return l.space.host.Store(), nil
}

// List lists stored threads; those that were updated last come first. A thread whose last turn runs in no process has the status
// "stopped".
func (r Reader) List(ctx context.Context, f Filter) ([]Info, error) {
	s, err := r.hub.stored()
	if err != nil {
		return nil, err
	}
	infos, err := s.Threads(ctx, f)
	s.MarkStopped(ctx, infos)
	return infos, err
}

// Search finds stored threads by their names and messages.
func (r Reader) Search(ctx context.Context, query string, f Filter) ([]Hit, error) {
	s, err := r.hub.stored()
	if err != nil {
		return nil, err
	}
	return s.Search(ctx, query, f)
}

// Turns lists the turns of a thread in order, including reverted ones.
func (r Reader) Turns(ctx context.Context, id event.ThreadID) ([]TurnInfo, error) {
	s, err := r.storeOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Turns(ctx, id)
}

// History returns the history of a thread. A thread that does not exist has an empty one.
func (h *Hub) History(ctx context.Context, id event.ThreadID) (History, error) {
	s, err := h.storeOf(ctx, id)
	if err != nil {
		return History{}, err
	}
	return s.History(id), nil
}

// Events reads the stored events of a thread with numbers greater than after.
func (r Reader) Events(ctx context.Context, id event.ThreadID, after uint64) iter.Seq2[event.Event, error] {
	s, err := r.storeOf(ctx, id)
	if err != nil {
		return func(yield func(event.Event, error) bool) { yield(event.Event{}, err) }
	}
	return s.Events(ctx, id, after)
}

// Artifact opens stored content that an event of a thread refers to by its digest. If the error has the code [NotFound] or [Damaged], the
// content is not available. Reading may also fail with [Damaged], so content is not to be used before [io.EOF].
func (r Reader) Artifact(ctx context.Context, id event.ThreadID, digest string) (io.ReadCloser, error) {
	s, err := r.storeOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Artifact(ctx, digest)
}

// Started returns the first event of a thread.
func (r Reader) Started(ctx context.Context, id event.ThreadID) (event.ThreadStarted, error) {
	s, err := r.storeOf(ctx, id)
	if err != nil {
		return event.ThreadStarted{}, err
	}
	return r.started(ctx, s, id)
}

func (r Reader) started(ctx context.Context, s *store.Store, id event.ThreadID) (event.ThreadStarted, error) {
	for e, err := range s.Events(ctx, id, 0) {
		if err != nil {
			return event.ThreadStarted{}, err
		}
		if b, ok := e.Body.(event.ThreadStarted); ok {
			return b, nil
		}
		break
	}
	return event.ThreadStarted{}, &store.NotFoundError{What: "thread", ID: string(id)}
}

// Fork stores a copy of a thread and returns its ID. The thread may be running, here or elsewhere; it does not change. The fork is not
// loaded.
func (h *Hub) Fork(ctx context.Context, id event.ThreadID, f Fork) (event.ThreadID, error) {
	if t, ok := h.Find(ctx, id); ok {
		r, err := t.current(ctx)
		if err != nil {
			return "", err
		}
		return r.fork(ctx, f)
	}
	s, err := h.stored()
	if err != nil {
		return "", err
	}
	return branch.Fork(ctx, s, id, f.point(), f.Name)
}

func (f Fork) point() branch.Point { return branch.Point{Before: f.Before, Through: f.Through} }

// Revert reverts a turn and all later ones. While a turn of the thread runs, the error has the code [Busy].
func (h *Hub) Revert(ctx context.Context, id event.ThreadID, before string) (Reverted, error) {
	if before == "" {
		return Reverted{}, hint.New("no turn specified", "name the first turn to revert")
	}
	return h.revert(ctx, id, before, 0, func(ctx context.Context, s *store.Store) (thread.Cut, error) {
		return branch.Before(ctx, s, id, before)
	})
}

// Rollback reverts the last turns with input.
func (h *Hub) Rollback(ctx context.Context, id event.ThreadID, turns int) (Reverted, error) {
	return h.revert(ctx, id, "", turns, func(ctx context.Context, s *store.Store) (thread.Cut, error) { return branch.Last(ctx, s, id, turns) })
}

func (h *Hub) revert(ctx context.Context, id event.ThreadID, before string, turns int, plan func(context.Context, *store.Store) (thread.Cut, error)) (done Reverted, err error) {
	err = change(ctx, h, id, func(r runner) (err error) {
		done, err = r.revert(ctx, before, turns)
		return err
	}, func(s *store.Store) (err error) {
		done, err = reverted(branch.Revert(ctx, s, id, func(ctx context.Context) (thread.Cut, error) { return plan(ctx, s) }))
		if err == nil {
			h.monitor.tell(Change{Kind: ThreadReverted, Thread: id, Status: Status{State: NotLoaded}})
		}
		return err
	})
	return done, err
}

// Rename names a thread.
func (h *Hub) Rename(ctx context.Context, id event.ThreadID, name string) error {
	return change(ctx, h, id, func(r runner) error { return r.rename(ctx, name) }, func(s *store.Store) error {
		name, err := branch.Name(name)
		if err != nil {
			return err
		}
		return h.append(ctx, s, id, event.ThreadNamed{Name: name}, Change{Kind: ThreadNamed, Name: name})
	})
}

// Describe changes what is known about the repository in which a thread works. Nil fields stay as they are, empty ones are cleared.
func (h *Hub) Describe(ctx context.Context, id event.ThreadID, git event.ThreadDescribed) error {
	return change(ctx, h, id, func(r runner) error { return r.describe(ctx, git) }, func(s *store.Store) error {
		return branch.AppendEvent(ctx, s, id, git)
	})
}

// append adds an event to the log of a thread that is not running.
func (h *Hub) append(ctx context.Context, s *store.Store, id event.ThreadID, body event.Body, c Change) error {
	if err := branch.AppendEvent(ctx, s, id, body); err != nil {
		return err
	}
	c.Thread, c.Status = id, Status{State: NotLoaded}
	h.monitor.tell(c)
	return nil
}

// Archive removes a thread from listings, so that it can't be continued. A thread that runs here is unloaded; if another process runs it,
// the error has the code [Busy] while a turn runs.
func (h *Hub) Archive(ctx context.Context, id event.ThreadID) error {
	info, err := h.Info(ctx, string(id))
	if err != nil {
		return err
	}
	if !info.Archived.IsZero() {
		return &branch.ArchivedError{Thread: id}
	}
	t, ok := h.Find(ctx, id)
	if ok && (t.Remote() || t.Ephemeral()) {
		r, err := t.current(ctx)
		if err != nil {
			return err
		}
		return r.archive(ctx, true)
	}
	if err := h.Unload(ctx, id); err != nil {
		return err
	}
	s, err := h.stored()
	if err != nil {
		return err
	}
	release, err := h.hold(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	return h.append(ctx, s, id, event.ThreadArchived{Archived: true}, Change{Kind: ThreadArchived})
}

// Unarchive restores an archived thread.
func (h *Hub) Unarchive(ctx context.Context, id event.ThreadID) error {
	info, err := h.Info(ctx, string(id))
	if err != nil {
		return err
	}
	if info.Archived.IsZero() {
		return &Error{Code: NotFound, Message: fmt.Sprintf("thread %s is not archived", id)}
	}
	return change(ctx, h, id, func(r runner) error { return r.archive(ctx, false) }, func(s *store.Store) error {
		return h.append(ctx, s, id, event.ThreadArchived{}, Change{Kind: ThreadUnarchived})
	})
}

// Delete removes a thread and everything that only it refers to. A thread that runs here is unloaded; for one that another process runs,
// the error has the code [Locked].
func (h *Hub) Delete(ctx context.Context, id event.ThreadID) error {
	if _, err := h.Info(ctx, string(id)); err != nil {
		return err
	}
	if err := h.Unload(ctx, id); err != nil {
		return err
	}
	s, err := h.stored()
	if err != nil {
		return err
	}
	if _, err := s.Delete(ctx, id); err != nil {
		return err
	}
	h.monitor.tell(Change{Kind: ThreadDeleted, Thread: id, Status: Status{State: NotLoaded}})
	return nil
}
