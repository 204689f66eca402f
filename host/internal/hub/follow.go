package hub

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// Policy says what happens when a follower is slower than its thread.
type Policy int

// The policies. In both cases, a follower that has fallen behind continues from the log and misses only transient events.
const (
	// Coalesce: the thread never waits. Deltas of an item are merged. An event is delivered when it survives the
	// end of the process. It is for followers on behalf of a client.
	Coalesce Policy = iota + 1
	// Lossless: the thread waits for the follower as long as it still reads, so that transient events are not missed either. It is
	// ignored for threads of other processes.
	Lossless
)

// FromNow is the number after which [Thread.Follow] begins with new events only.
const FromNow = threadsocket.FromNow

// Events are the events of a thread, in order. Only one goroutine may call Next and More.
type Events struct {
	thread *Thread
	policy Policy

	mu struct {
		sync.Mutex
		runner runner // that source belongs to
		source source
		closed bool
	}
}

func newEvents(t *Thread, r runner, s source, p Policy) *Events {
	e := &Events{thread: t, policy: p}
	e.mu.runner, e.mu.source = r, s
	return e
}

// source delivers the events of a running thread.
type source interface {
	next(ctx context.Context) (event.Event, error)
	more() bool
	// position returns the number of the last durable event that was returned.
	position() uint64
	close()
}

// Next waits for the next event. After the last event of a thread that has ended or was unloaded, the error has the code [Closed].
func (e *Events) Next(ctx context.Context) (event.Event, error) {
	for {
		s := e.current()
		ev, err := s.next(ctx)
		if err == nil || !errors.Is(err, errClosed) {
			return ev, err
		}
		if moved, merr := e.move(ctx, s); merr != nil || !moved {
			return ev, cmp.Or(merr, err)
		}
	}
}

func (e *Events) current() source {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.source
}

// move continues in the host to which the thread has moved. moved is false if it has ended.
func (e *Events) move(ctx context.Context, from source) (moved bool, err error) {
	e.mu.Lock()
	was, closed := e.mu.runner, e.mu.closed
	e.mu.Unlock()
	if closed {
		return false, nil
	}
	r, err := e.thread.current(ctx)
	if err != nil || r == was {
		return false, err
	}
	s, err := r.follow(ctx, from.position(), e.policy)
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		s.close()
		return false, nil
	}
	from.close()
	e.mu.runner, e.mu.source = r, s
	return true, nil
}

// More reports whether the next event is already there.
func (e *Events) More() bool { return e.current().more() }

// Close ends following. It is idempotent, and may be called at any time by any goroutine; Next then returns an error.
func (e *Events) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.closed = true
	e.mu.source.close()
}

// hasLeft reports whether the thread is no longer reached by r, because it moves or has moved.
func (t *Thread) hasLeft(r runner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.moving != nil || t.mu.runner != r
}
