// Package transcript shows a thread as turns and items: it folds the thread's events into the notifications and the history of the
// app server's protocol.
//
// It owns: which notifications an event becomes, the items of a turn, the status of a thread, and the pages of its history. It does not
// know: where events come from, who reads the notifications, and how a question is answered.
//
// Start with [Fold]. The same code folds a running thread and a stored one, so a client that has seen a turn and one that reads it later
// have the same items.
package transcript

import (
	"iter"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Change is a notification of a thread.
type Change struct {
	Seq    uint64 // number of the event that caused it; 0: the event was transient
	Method string
	Params any // of the type of package protocol for Method, by value
}

// Fold turns the events of one thread into notifications. Its zero value is the fold of a thread without events. It is not safe for
// concurrent use.
type Fold struct {
	turn *protocol.Turn
}

// Apply returns the notifications of an event, in the order in which clients get them. The fold of a thread gets all of its events, from
// the first one or from the first one of the last turn on, in their order.
func (f *Fold) Apply(event.Event) []Change { return nil }

// Open returns the open items of the running turn, with their text so far.
func (f *Fold) Open() []protocol.ThreadItem { return nil }

// Turn returns the running turn, without items; nil: none is running.
func (f *Fold) Turn() *protocol.Turn { return f.turn }

// Status returns what the thread does. It is never [protocol.NotLoadedStatus].
func (f *Fold) Status() protocol.ThreadStatus {
	return protocol.ThreadStatus{Body: protocol.IdleStatus{}}
}

// Turns folds a log, or the part of it that begins with a turn, into turns with their items. Reverted turns are left out. A turn whose end
// the log lacks is in progress, as are its open items, unless another turn follows; only the caller knows whether it still runs, see
// [Stopped]. Events that could not be decoded are skipped; any other error of the log ends the fold.
func Turns(iter.Seq2[event.Event, error], protocol.TurnItemsView) ([]protocol.Turn, error) {
	return nil, nil
}

// Stopped changes turns that are in progress to interrupted, and closes their items: the thread that they belong to is not running.
func Stopped([]protocol.Turn) {}

// WithOpen adds the open items of a running thread, as [Fold.Open] returns them, to the turns of its log.
func WithOpen([]protocol.Turn, []protocol.ThreadItem) {}
