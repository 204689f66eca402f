package hub

import (
	"context"
	"math"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Policy says what happens when a follower is slower than its thread.
type Policy int

// The policies. In both cases, a follower that has fallen behind continues from the log and misses only transient events.
const (
	// Coalesce: the thread never waits. Deltas of an item are merged. It is for followers on behalf of a client.
	Coalesce Policy = iota + 1
	// Lossless: the thread waits for the follower as long as it still reads, so that transient events are not missed either. It is
	// ignored for threads of other processes.
	Lossless
)

// FromNow is the number after which [Thread.Follow] begins with new events only.
const FromNow uint64 = math.MaxUint64

// Events are the events of a thread, in order. Only one goroutine may call Next and More.
type Events struct{ source source }

// source delivers the events of a running thread.
type source interface {
	next(ctx context.Context) (event.Event, error)
	more() bool
	close()
}

// Next waits for the next event. After the last event of a thread that has ended or was unloaded, the error has the code [Closed].
func (e *Events) Next(ctx context.Context) (event.Event, error) { return e.source.next(ctx) }

// More reports whether the next event is already there.
func (e *Events) More() bool { return e.source.more() }

// Close ends following. It is idempotent, and may be called at any time by any goroutine; Next then returns an error.
func (e *Events) Close() { e.source.close() }
