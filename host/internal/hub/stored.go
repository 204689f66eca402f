package hub

import (
	"context"
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
	// Hit is a thread that matches a search.
	Hit = store.Hit
)

// Choices of answers to approvals.
const (
	Approve        = approval.Approve
	ApproveTurn    = approval.ApproveTurn    // also calls with the same key, until the turn ends
	ApproveSession = approval.ApproveSession // also calls with the same key, as long as the thread runs
	ApproveAlways  = approval.ApproveAlways  // also write the rule that the question shows
	Deny           = approval.Deny           // the turn continues
	DenyAlways     = approval.DenyAlways     // also write the denying rule that the question shows
	Abort          = approval.Abort          // deny, and interrupt the turn
)

// Info describes a thread, found by its ID, by a unique prefix of the ID, or by its name. Ephemeral threads are found by their ID while
// they are loaded.
func (h *Hub) Info(ctx context.Context, query string) (Info, error) { panic("not implemented") }

// List lists stored threads; those that were updated last come first.
func (h *Hub) List(ctx context.Context, f Filter) ([]Info, error) { panic("not implemented") }

// Search finds stored threads by their names and messages.
func (h *Hub) Search(ctx context.Context, query string, f Filter) ([]Hit, error) {
	panic("not implemented")
}

// Turns lists the turns of a thread in order, including reverted ones.
func (h *Hub) Turns(ctx context.Context, id event.ThreadID) ([]TurnInfo, error) {
	panic("not implemented")
}

// Events reads the stored events of a thread with numbers greater than after. The log of a running thread may lag behind by some
// milliseconds; [Thread.Follow] has no gap.
func (h *Hub) Events(ctx context.Context, id event.ThreadID, after uint64) iter.Seq2[event.Event, error] {
	panic("not implemented")
}

// Started returns the first event of a thread.
func (h *Hub) Started(ctx context.Context, id event.ThreadID) (event.ThreadStarted, error) {
	panic("not implemented")
}

// Fork stores a copy of a thread and returns its ID. The thread may be running, here or elsewhere; it does not change. The fork is not
// loaded.
func (h *Hub) Fork(ctx context.Context, id event.ThreadID, f Fork) (event.ThreadID, error) {
	panic("not implemented")
}

// Revert reverts a turn and all later ones. While a turn of the thread runs, the error has the code [Busy].
func (h *Hub) Revert(ctx context.Context, id event.ThreadID, before string) (Reverted, error) {
	panic("not implemented")
}

// Rollback reverts the last turns with input.
func (h *Hub) Rollback(ctx context.Context, id event.ThreadID, turns int) (Reverted, error) {
	panic("not implemented")
}

// Rename names a thread.
func (h *Hub) Rename(ctx context.Context, id event.ThreadID, name string) error {
	panic("not implemented")
}

// Archive removes a thread from listings, so that it can't be continued. A thread that runs here is unloaded.
func (h *Hub) Archive(ctx context.Context, id event.ThreadID) error { panic("not implemented") }

// Unarchive restores an archived thread.
func (h *Hub) Unarchive(ctx context.Context, id event.ThreadID) error { panic("not implemented") }

// Delete removes a thread and everything that only it refers to. A thread that runs here is unloaded; for one that another process runs,
// the error has the code [Locked].
func (h *Hub) Delete(ctx context.Context, id event.ThreadID) error { panic("not implemented") }
