package thread

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
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
