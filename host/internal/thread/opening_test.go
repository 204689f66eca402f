package thread

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/hashicorp/go-hclog"
)

func TestWhoSubscribesBeforeTheFirstTurnMissesNothing(t *testing.T) {
	t.Parallel()
	publish := func(b *bus, bodies ...event.Body) {
		t.Helper()
		if _, err := b.Publish(t.Context(), "", bodies...); err != nil {
			t.Fatal(err)
		}
	}
	subscribe := func(b *bus) *Subscription {
		t.Helper()
		s, err := b.subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	expect := func(s *Subscription, after uint64, kinds ...string) {
		t.Helper()
		if s.After() != after {
			t.Errorf("the subscription begins after %d, want %d", s.After(), after)
		}
		for i, want := range kinds {
			e, err := s.Next(t.Context())
			if err != nil || e.Body.Kind() != want {
				t.Errorf("event %d is %v, %v, want %s", i, e.Body, err, want)
			}
		}
		if n := len(s.mu.queue); n > 0 {
			t.Errorf("%d more events", n)
		}
	}
	t.Run("a resumed thread", func(t *testing.T) {
		b := newBus("t", &memory{events: make([]event.Event, 7)}, 7)
		early := subscribe(b)
		publish(b, event.SessionExited{Session: "s", How: "lost"}, event.ItemDelta{Item: "i"})
		late := subscribe(b)
		publish(b, event.TurnStarted{})
		expect(early, 7, "session.exited", "item.delta", "turn.started")
		expect(late, 7, "session.exited", "item.delta", "turn.started")
		publish(b, event.Notice{Text: "later"})
		expect(subscribe(b), 10)
	})
	t.Run("more than anybody keeps", func(t *testing.T) {
		b := newBus("t", &memory{}, 0)
		for range queueBound + 1 {
			publish(b, event.Notice{Text: "again"})
		}
		expect(subscribe(b), queueBound+1)
	})
}

// flushed is a sink that knows up to which event it was flushed.
type flushed struct {
	memory
	through uint64
}

func (f *flushed) Barrier(_ context.Context, _ event.ThreadID, seq uint64) error {
	f.through = seq
	return nil
}

// What is published while a thread starts comes after its first event, and the log is complete when the thread has ended.
func TestTheLogBeginsWithTheStartAndIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flushed{}
		th := New(Config{ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/"}, Sink: sink, Engine: &engine{}, Logger: hclog.NewNullLogger()})
		published := make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := th.Publish(t.Context(), "", event.ThreadNamed{Name: "early"})
			published <- err
		}()
		synctest.Wait()
		if n := len(sink.all()); n > 0 {
			t.Errorf("%d events before the thread runs", n)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		go func() { // owned by the test: waited for below
			defer close(done)
			_ = th.Run(ctx)
		}()
		if err := <-published; err != nil {
			t.Fatal(err)
		}
		cancel(orchestrate.ErrShutdown)
		<-done
		evs := sink.all()
		if len(evs) != 2 || evs[0].Body.Kind() != "thread.started" || evs[1].Body.Kind() != "thread.named" {
			t.Errorf("events %+v", evs)
		}
		if sink.through != 2 {
			t.Errorf("flushed up to event %d of %d", sink.through, len(evs))
		}
		if _, err := th.Publish(t.Context(), "", event.ThreadNamed{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
