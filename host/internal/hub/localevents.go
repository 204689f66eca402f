package hub

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// localEvents reads the events of a thread in this process without gaps. A reader that is disconnected because it was too slow continues
// from the log.
type localEvents struct {
	thread *thread.Thread
	stored func(ctx context.Context, after uint64) iter.Seq2[event.Event, error]
	// committed returns when the events up to a number survive the end of this process.
	committed func(ctx context.Context, seq uint64) error
	policy    thread.Policy
	last      uint64 // number of the last durable event that was returned, or before the first one

	life   context.Context // ends with close
	cancel context.CancelFunc
	done   func() // releases the thread

	missed func() (event.Event, error, bool) // reads the next missed event from the log; nil: none are missing
	stop   func()
	until  uint64 // number of the last missed event

	mu struct {
		sync.Mutex
		events  *thread.Subscription
		closed  bool
		reading bool // next is at work
	}
}

func (l *local) follow(ctx context.Context, after uint64, p Policy) (source, error) {
	policy := thread.Coalesce
	if p == Lossless {
		policy = thread.Lossless
	}
	done, err := l.use()
	if err != nil {
		return nil, err
	}
	e := &localEvents{thread: l.thread, policy: policy, last: after, done: sync.OnceFunc(done)}
	e.stored = func(ctx context.Context, after uint64) iter.Seq2[event.Event, error] {
		return l.space.host.Store().Events(ctx, l.thread.ID(), after)
	}
	e.committed = func(ctx context.Context, seq uint64) error {
		return l.space.host.Store().AwaitCommit(ctx, l.thread.ID(), seq)
	}
	e.life, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := e.subscribe(ctx, after == FromNow); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// subscribe subscribes, and arranges for missed events to be read from the log first.
func (e *localEvents) subscribe(ctx context.Context, fromNow bool) error {
	sub, err := e.thread.Subscribe(ctx, e.policy)
	if errors.Is(err, thread.ErrClosed) && e.mu.events != nil {
		// It has fallen behind and the thread has ended: the log has what is left, and then the old subscription its end.
		e.until = math.MaxUint64
		e.missed, e.stop = iter.Pull2(e.stored(e.life, e.last))
		return nil
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.mu.events = sub
	closed := e.mu.closed
	e.mu.Unlock()
	if closed {
		sub.Close()
		return errClosed
	}
	if fromNow {
		e.last = sub.After()
	}
	e.last = min(e.last, sub.Last())
	if e.last >= sub.After() {
		return nil
	}
	// The log may lag behind.
	if err := e.thread.Barrier(ctx, sub.After()); err != nil {
		return err
	}
	e.until = sub.After()
	e.missed, e.stop = iter.Pull2(e.stored(e.life, e.last))
	return nil
}

func (e *localEvents) caughtUp() {
	if e.stop != nil {
		e.stop()
	}
	e.missed, e.stop = nil, nil
}

// enter begins reading; leave ends it and finishes a close in the meantime.
func (e *localEvents) enter() (*thread.Subscription, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.reading = !e.mu.closed
	return e.mu.events, !e.mu.closed
}

func (e *localEvents) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.reading = false
	if e.mu.closed {
		e.caughtUp()
	}
}

func (e *localEvents) next(ctx context.Context) (event.Event, error) {
	sub, ok := e.enter()
	if !ok {
		return event.Event{}, errClosed
	}
	defer e.leave()
	for {
		if e.missed != nil {
			ev, err, more := e.missed()
			if more && err != nil {
				if e.life.Err() != nil {
					err = errClosed // while it read
				}
				return event.Event{}, err
			}
			if more && ev.Seq <= e.until {
				e.last = ev.Seq
				return ev, nil
			}
			e.caughtUp()
		}
		ev, err := sub.Next(ctx)
		if errors.Is(err, thread.ErrLagged) {
			sub.Close()
			if err = e.subscribe(ctx, false); err == nil {
				e.mu.Lock()
				sub = e.mu.events
				e.mu.Unlock()
				continue
			}
		}
		if err != nil {
			return event.Event{}, err
		}
		if ev.Seq != 0 {
			if ev.Seq <= e.last {
				continue // the caller has it
			}
			// A front end's client may outlive this process. It must not have seen an event that the log lacks afterwards, because another
			// one would get its number. A store that can't write doesn't keep it from watching.
			if e.policy != thread.Lossless {
				if err := e.committed(ctx, ev.Seq); err != nil && ctx.Err() != nil {
					return event.Event{}, context.Cause(ctx)
				}
			}
			e.last = ev.Seq
		}
		return ev, nil
	}
}

func (e *localEvents) more() bool {
	sub, ok := e.enter()
	if !ok {
		return false
	}
	defer e.leave()
	return e.missed != nil || sub.More()
}

func (e *localEvents) position() uint64 { return e.last }

func (e *localEvents) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return
	}
	e.mu.closed = true
	e.cancel()
	if e.mu.events != nil {
		e.mu.events.Close()
	}
	if !e.mu.reading {
		e.caughtUp()
	}
	e.done()
}
