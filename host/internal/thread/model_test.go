package thread

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A submission that names a model waits for the turn that runs, changes the thread's model, and the log keeps the change:
// a thread that is resumed after any of its events has the model that its last turn began with.
func TestModelOfAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, first := &memory{}, make(chan struct{})
		var th *Thread
		e := &engine{stream: func(_ context.Context, n int, _ *llm.Request, yield func(llm.Event, error) bool) {
			if n == 1 {
				<-first
			}
			say("ok", yield)
		}}
		wanted := map[string]event.Selection{"b": {Model: "b", Provider: "other", ModelName: "big"}}
		subs := 0
		e.plan = func(_ context.Context, p *Plan) error {
			if subs++; subs == 2 {
				p.Changed = &event.ModelChanged{From: th.Model(), To: wanted["b"]}
			}
			return nil
		}
		th, stop := startThread(t, e, sink)
		defer stop()
		sub, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("one")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		two := input("two")
		two.Model = "b"
		done := make(chan Accepted, 1)
		go func() { // owned by the test: received below
			a, err := th.Submit(t.Context(), two)
			if err != nil {
				t.Error(err)
			}
			done <- a
		}()
		synctest.Wait()
		select {
		case a := <-done:
			t.Fatalf("accepted while a turn with another model runs: %+v", a)
		default:
		}
		close(first)
		if a := <-done; a.Steered {
			t.Errorf("%+v, want a turn of its own", a)
		}
		until(t, sub, turnEnded)
		until(t, sub, turnEnded)
		if _, err := th.Submit(t.Context(), input("three")); err != nil {
			t.Fatal(err)
		}
		until(t, sub, turnEnded)
		changes, log := 0, sink.all()
		own := event.Selection{}
		for i, ev := range log {
			if c, ok := ev.Body.(event.ModelChanged); ok {
				changes++
				if c.From != own || c.To != wanted["b"] {
					t.Errorf("%+v", c)
				}
				own = c.To
			}
			if start, ok := ev.Body.(event.ThreadStarted); ok {
				own = selected(start)
			}
			if s, err := Rebuild(seq(log[:i+1])); err != nil || s.Model != own {
				t.Errorf("resumed after %d events: %+v, %v; want %+v", i+1, s.Model, err, own)
			}
		}
		if changes != 1 || th.Model() != wanted["b"] {
			t.Errorf("%d changes, now %+v", changes, th.Model())
		}
	})
}
