package hub

import (
	"context"
	"io"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
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
	Dismiss        = approval.Dismiss        // a plugin's question: close it without deciding
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
