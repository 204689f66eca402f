package thread

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func words(s string) turn.Input { return turn.Input{Parts: []llm.Part{&llm.Text{Text: s}}} }

// Input that is for one turn joins that turn or none, and whoever sent it learns why.
func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &engine{}
		e.stream = func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
			if n%2 == 1 {
				select {
				case <-release:
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
					return
				}
			}
			say(r.Messages[len(r.Messages)-1].Text(), yield)
		}
		sink := &memory{}
		th, stop := startThread(t, e, sink)
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		refused := func(into event.TurnID, text, want string) {
			t.Helper()
			if a, err := th.Steer(t.Context(), into, words(text)); err == nil || err.Error() != want || a.Turn != "" {
				t.Errorf("%+v, %v, want %q", a, err, want)
			}
		}
		other := event.NewTurnID()
		refused(other, "idle", "no active turn to steer")

		first, err := th.Submit(t.Context(), input("one"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		refused(other, "two", fmt.Sprintf("expected active turn id `%s` but found `%s`", other, first.Turn))
		refused(first.Turn, " \n", "input must not be empty")
		refused("", "two", "the id of the turn to steer is missing")
		a, err := th.Steer(t.Context(), first.Turn, words("three"))
		if err != nil || a.Turn != first.Turn || !a.Steered {
			t.Errorf("%+v, %v", a, err)
		}
		if kinds := kindsOf(sink.all()); kinds["input.accepted"] != 1 {
			t.Errorf("events %v: what was taken must be in the log when its sender is told", kinds)
		}
		adjust := turn.Input{Adjust: turn.Adjustment{Effort: "high"}}
		if a, err := th.Steer(t.Context(), first.Turn, adjust); err != nil || a.Turn != first.Turn {
			t.Errorf("adjusted: %+v, %v", a, err)
		}
		if _, err := th.Steer(t.Context(), other, adjust); !errors.As(err, new(*OtherTurnError)) {
			t.Errorf("another turn adjusted: %v", err)
		}
		if kinds := kindsOf(sink.all()); kinds["input.accepted"] != 1 {
			t.Errorf("events %v: a change of the turn is no input", kinds)
		}
		close(release)
		if end := lastEnd(until(t, sub, turnEnded)); end.LastMessage != "three" {
			t.Errorf("the turn ended with %q", end.LastMessage)
		}
		refused(first.Turn, "late", "no active turn to steer")
		if _, err := th.Steer(t.Context(), first.Turn, adjust); !errors.Is(err, ErrNoTurn) {
			t.Errorf("a turn that has ended was adjusted: %v", err)
		}

		c, err := th.Submit(t.Context(), Submission{Task: &Task{Name: "review", Work: func(ctx context.Context, _ Worker) turn.Result {
			<-ctx.Done()
			return turn.Result{Status: event.TurnInterrupted, Cause: context.Cause(ctx)}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		refused(c.Turn, "four", "cannot steer a review turn")
		if _, err := th.Steer(t.Context(), c.Turn, adjust); !errors.As(err, new(*NotSteerableError)) {
			t.Errorf("a review adjusted: %v", err)
		}
		if _, err := th.Steer(t.Context(), c.Turn, words("four")); !errors.As(err, new(*NotSteerableError)) {
			t.Errorf("error %T, clients look for the kind of the turn", err)
		}
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		until(t, sub, turnEnded)
		for _, m := range th.history.Messages() {
			switch m.Text() {
			case "idle", "two", "late", "four":
				t.Errorf("what was refused is in the history: %q", m.Text())
			}
		}
	})
}

// A compaction is no turn to steer; whoever loses the race with the end of a turn is told so.
func TestOwnerRefusesToSteer(t *testing.T) {
	over := &turn.Inbox{}
	over.Close()
	for want, o := range map[string]owner{
		"cannot steer a compact turn": {turn: "t", inbox: &turn.Inbox{}, task: "compact"},
		"no active turn to steer":     {turn: "t", inbox: over},
	} {
		acts := o.submit(submitMsg{into: "t"})
		if r, ok := acts[0].(refuse); len(acts) != 1 || !ok || r.why.Error() != want {
			t.Errorf("%+v, want %q", acts, want)
		}
	}
}

func kindsOf(evs []event.Event) map[string]int {
	out := map[string]int{}
	for _, e := range evs {
		out[e.Body.Kind()]++
	}
	return out
}

func lastEnd(evs []event.Event) event.TurnEnded {
	return evs[len(evs)-1].Body.(event.TurnEnded)
}

// Nothing is done beside a turn whose last event is out: whoever has seen it has a turn of their own.
func TestOwnerBeginsNothingBesideTheEnd(t *testing.T) {
	over := &turn.Inbox{}
	over.Close()
	o := owner{turn: "t", inbox: over}
	m := submitMsg{Submission: Submission{Task: &Task{Concurrent: true}}, claimed: &atomic.Bool{}}
	if acts := o.submit(m); len(acts) > 0 || len(o.queue) != 1 {
		t.Fatalf("%+v, queue %+v", acts, o.queue)
	}
	if acts := o.turnEnded(turnMsg{}); len(acts) != 1 || acts[0].(startTurn).sub.Task != m.Task {
		t.Errorf("then %+v", acts)
	}
}
