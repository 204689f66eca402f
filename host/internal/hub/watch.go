package hub

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// State is what a thread does now.
type State string

// The states of a thread.
const (
	NotLoaded State = "not_loaded" // no process runs it
	Idle      State = "idle"       // it waits for input
	Active    State = "active"     // a turn runs
	Failed    State = "failed"     // it waits for input, and its last turn failed
)

// Status is the state of a thread, and what a running turn waits for.
type Status struct {
	State State
	Turn  event.TurnID // that runs
	// WaitingOnApproval: an approval or a request for permissions is pending. WaitingOnInput: another question to the user is.
	WaitingOnApproval, WaitingOnInput bool
	Remote                            bool // another process runs the thread
}

// ChangeKind is the kind of a [Change].
type ChangeKind string

// Kinds of changes.
const (
	ThreadLoaded     ChangeKind = "loaded" // it started or was resumed, here or in another process
	ThreadClosed     ChangeKind = "closed" // it has ended or was unloaded
	ThreadStatus     ChangeKind = "status"
	ThreadNamed      ChangeKind = "named"
	ThreadArchived   ChangeKind = "archived"
	ThreadUnarchived ChangeKind = "unarchived"
	ThreadReverted   ChangeKind = "reverted"
	ThreadDeleted    ChangeKind = "deleted"
)

// Change is a change in the life of a thread.
type Change struct {
	Kind   ChangeKind
	Thread event.ThreadID
	Status Status // after the change
	Name   string // of ThreadNamed
}

// Changes are the changes of all threads, in order for each thread. Only one goroutine may call Next.
type Changes struct{ watcher *watcher }

// Next waits for the next change. If the caller was too slow, the error has the code [Lagged], and the caller should watch again and
// read the states. After the hub has closed, the error has the code [Closed].
func (c *Changes) Next(ctx context.Context) (Change, error) { return c.watcher.next(ctx) }

// Close ends watching. It is idempotent.
func (c *Changes) Close() { c.watcher.close() }

type watcher struct{}

func (w *watcher) next(ctx context.Context) (Change, error) { panic("not implemented") }
func (w *watcher) close()                                   { panic("not implemented") }
