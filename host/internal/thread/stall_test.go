package thread

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// chatty answers with more deltas than any subscriber's queue holds.
func chatty(_ context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
	_ = yield(llm.StepStart{}, nil) && yield(llm.BlockStart{Kind: llm.BlockText, ID: "1"}, nil)
	for range 3 * queueBound {
		if !yield(llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "x"}, nil) {
			return
		}
	}
	_ = yield(llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, nil) && yield(llm.StepFinish{}, nil) && yield(llm.Finish{}, nil)
}

// drain reads what a subscription has left, and its end.
func drain(t *testing.T, s *Subscription) (events []event.Event, end error) {
	t.Helper()
	for {
		e, err := s.Next(t.Context())
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func notices(evs []event.Event) (out []string) {
	for _, e := range evs {
		if n, ok := e.Body.(event.Notice); ok {
			out = append(out, n.Level+": "+n.Text)
		}
	}
	return out
}

// A subscriber that has stopped reading costs a turn a minute, not its end. It keeps what it had and learns why no more
// comes; everybody else is told; the log has everything.
func TestTurnGoesOnWithoutAStalledSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		th, stop := startThread(t, &engine{stream: chatty}, sink)
		defer stop()
		stalled, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		others, err := th.Subscribe(t.Context(), Coalesce)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		got := until(t, others, turnEnded)
		if took := time.Since(began); took < stallBound || took > stallBound+time.Second {
			t.Errorf("the turn took %v", took)
		}
		if end := got[len(got)-1].Body.(event.TurnEnded); end.Status != event.TurnCompleted {
			t.Errorf("end = %+v", end)
		}
		if ns := notices(got); len(ns) != 1 || !strings.Contains(ns[0], "warning: a reader of this thread read no event for 1m0s and was disconnected") {
			t.Errorf("the others read %q", ns)
		}
		if ns := notices(sink.all()); len(ns) != 1 {
			t.Errorf("the log has %q", ns)
		}
		kept, err := drain(t, stalled)
		if len(kept) != queueBound || !errors.Is(err, ErrStalled) || !errors.Is(err, ErrLagged) {
			t.Errorf("the subscriber got %d events, then %v", len(kept), err)
		}
		// A new subscription of the same reader works like any other.
		again, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("and on")); err != nil {
			t.Fatal(err)
		}
		until(t, again, turnEnded)
	})
}

// One that is only slow gets every event, however long that takes.
func TestSlowSubscriberLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := startThread(t, &engine{stream: chatty}, &memory{})
		defer stop()
		slow, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		var got []event.Event
		deltas := 0
		for len(got) == 0 || !turnEnded(got[len(got)-1]) {
			if deltas%1000 == 500 {
				time.Sleep(stallBound - time.Second) // in the bubble
			}
			e, err := slow.Next(t.Context())
			if err != nil {
				t.Fatalf("after %d events: %v", len(got), err)
			}
			if _, ok := e.Body.(event.ItemDelta); ok {
				deltas++
			}
			got = append(got, e)
		}
		if deltas != 3*queueBound || len(notices(got)) > 0 {
			t.Errorf("%d deltas, notices %q", deltas, notices(got))
		}
	})
}

// Several that stall at once are told of one by one, and none holds the thread for ever.
func TestSeveralStalledSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		th, stop := startThread(t, &engine{stream: chatty}, sink)
		defer stop()
		var all []*Subscription
		for range 3 {
			s, err := th.Subscribe(t.Context(), Lossless)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * stallBound) // in the bubble
		synctest.Wait()
		log := sink.all()
		if !turnEnded(log[len(log)-1]) || len(notices(log)) != 3 {
			t.Errorf("the log ends with %s and has the notices %q", log[len(log)-1].Body.Kind(), notices(log))
		}
		for i, s := range all {
			if _, err := drain(t, s); !errors.Is(err, ErrStalled) {
				t.Errorf("subscriber %d: %v", i, err)
			}
		}
	})
}

// A reader may take its time over each event, however many wait behind it.
func TestUnhurriedSubscriberIsNotStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := startThread(t, &engine{stream: chatty}, &memory{})
		defer stop()
		slow, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		for deltas := 0; deltas < 3*queueBound; {
			e, err := slow.Next(t.Context())
			if err != nil {
				t.Fatalf("after %d deltas: %v", deltas, err)
			}
			if _, ok := e.Body.(event.ItemDelta); ok {
				deltas++
			}
			time.Sleep(stallBound / 2) // in the bubble
		}
	})
}
