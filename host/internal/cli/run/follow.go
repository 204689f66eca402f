package run

import (
	"context"
	"errors"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// follower reads the events of a thread in this process without gaps. If it is disconnected because its output was blocked for a
// while, it continues from the log.
type follower struct {
	thread *thread.Thread
	stored func(ctx context.Context, after uint64) iter.Seq2[event.Event, error]
	events *thread.Subscription
	last   uint64 // sequence number of the last durable event returned

	missed func() (event.Event, error, bool) // reads the next missed event from the log; nil: none are missing
	stop   func()
	until  uint64 // sequence number of the last missed event
}

// follow subscribes to a thread.
func follow(ctx context.Context, t *thread.Thread, stored func(context.Context, uint64) iter.Seq2[event.Event, error]) (*follower, error) {
	events, err := t.Subscribe(ctx, thread.Lossless)
	if err != nil {
		return nil, err
	}
	return &follower{thread: t, stored: stored, events: events, last: events.After()}, nil
}

// Close ends the subscription. It is idempotent.
func (f *follower) Close() {
	f.events.Close()
	f.caughtUp()
}

func (f *follower) caughtUp() {
	if f.stop != nil {
		f.stop()
	}
	f.missed, f.stop = nil, nil
}

// Next waits for an event.
func (f *follower) Next(ctx context.Context) (event.Event, error) {
	for {
		if f.missed != nil {
			e, err, more := f.missed()
			if more && err != nil {
				return event.Event{}, err
			}
			if more && e.Seq <= f.until {
				f.last = e.Seq
				return e, nil
			}
			f.caughtUp()
		}
		e, err := f.events.Next(ctx)
		if errors.Is(err, thread.ErrLagged) {
			err = f.again(ctx)
			if err == nil {
				continue
			}
		}
		f.last = max(f.last, e.Seq)
		return e, err
	}
}

// More reports whether the next event is already available.
func (f *follower) More() bool { return f.missed != nil || f.events.More() }

// again subscribes again and arranges for missed events to be read from the log first.
func (f *follower) again(ctx context.Context) error {
	f.events.Close()
	events, err := f.thread.Subscribe(ctx, thread.Lossless)
	if err != nil {
		return err
	}
	f.events, f.until = events, events.After()
	// The log may lag behind.
	if err := f.thread.Barrier(ctx, f.until); err != nil {
		return err
	}
	f.missed, f.stop = iter.Pull2(f.stored(ctx, f.last))
	return nil
}
