package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a sink that keeps what it gets, as the store does: in order, all or nothing, as JSON that can be read again.
type memory struct {
	mu     sync.Mutex
	events []event.Event
	refuse func(event.Event) error // nil: nothing
}

func (m *memory) Append(_ context.Context, evs ...event.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range evs {
		if want := uint64(len(m.events) + i + 1); e.Seq != want {
			return fmt.Errorf("event %d came where %d was expected", e.Seq, want)
		}
		if _, err := json.Marshal(e); err != nil {
			return err
		}
		if m.refuse != nil {
			if err := m.refuse(e); err != nil {
				return err
			}
		}
	}
	m.events = append(m.events, evs...)
	return nil
}

func (m *memory) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

func (m *memory) all() []event.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]event.Event(nil), m.events...)
}

func seq(evs []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range evs {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// engine runs turns on a model that is a function.
type engine struct {
	stream func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool)
	plan   func(context.Context, *Plan) error // changes a plan or refuses it; nil: as it is
	mu     sync.Mutex
	n      int
	ended  int
}

func (e *engine) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		e.mu.Lock()
		e.n++
		n := e.n
		e.mu.Unlock()
		e.stream(ctx, n, r, yield)
	}
}

func say(text string, yield func(llm.Event, error) bool) {
	for _, ev := range []llm.Event{
		llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: text},
		llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, llm.StepFinish{Reason: llm.FinishStop}, llm.Finish{Reason: llm.FinishStop},
	} {
		if !yield(ev, nil) {
			return
		}
	}
}

func (e *engine) Turn(ctx context.Context, _ *Thread, _ event.TurnID, _ Submission) (Plan, error) {
	p := Plan{Started: event.TurnStarted{Cwd: "/"}, Config: turn.Config{
		Model: e, Tools: registry.New().Snapshot, Request: llm.Request{Model: "m"},
	}}
	if e.plan != nil {
		return p, e.plan(ctx, &p)
	}
	return p, nil
}

func (e *engine) Check(_ context.Context, _ *Thread, c Change) error {
	if c.Cwd == "/nowhere" {
		return errors.New("no such folder")
	}
	return nil
}

func (e *engine) End(context.Context, event.ThreadID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended++
}

func input(s string) Submission {
	return Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: s}}}}
}

func startThread(t *testing.T, e *engine, sink Sink) (th *Thread, stop func()) {
	t.Helper()
	th = New(Config{ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/"}, Sink: sink, Engine: e, Logger: hclog.NewNullLogger()})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { // owned by the test: stop waits
		defer close(done)
		_ = th.Run(ctx)
	}()
	return th, func() { cancel(orchestrate.ErrShutdown); <-done }
}

func until(t *testing.T, s *Subscription, stop func(event.Event) bool) []event.Event {
	t.Helper()
	var out []event.Event
	for {
		e, err := s.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d events: %v", len(out), err)
		}
		out = append(out, e)
		if stop(e) {
			return out
		}
	}
}

func turnEnded(e event.Event) bool { _, ok := e.Body.(event.TurnEnded); return ok }

func TestTurnHasItsEventsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{}
		th, stop := startThread(t, &engine{stream: func(_ context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			say("hello", yield)
		}}, sink)
		defer stop()
		sub, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("hi")); err != nil {
			t.Fatal(err)
		}
		got := until(t, sub, turnEnded)
		if end := got[len(got)-1].Body.(event.TurnEnded); end.Status != event.TurnCompleted || end.LastMessage != "hello" {
			t.Errorf("end = %+v", end)
		}
		for i, e := range sink.all() {
			if e.Seq != uint64(i+1) {
				t.Errorf("event %d has number %d: durable events are numbered without gaps", i, e.Seq)
			}
		}
	})
}

func TestInputJoinsTheRunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &engine{}
		e.stream = func(_ context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
			if n == 1 {
				<-release
			}
			say(fmt.Sprintf("answer %d to %d messages", n, len(r.Messages)), yield)
		}
		th, stop := startThread(t, e, &memory{})
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		first, _ := th.Submit(t.Context(), input("one"))
		synctest.Wait()
		second, _ := th.Submit(t.Context(), input("two"))
		if !second.Steered || second.Turn != first.Turn {
			t.Errorf("second = %+v, want it to join %s", second, first.Turn)
		}
		close(release)
		got := until(t, sub, turnEnded)
		if end := got[len(got)-1].Body.(event.TurnEnded); end.LastMessage != "answer 2 to 3 messages" {
			t.Errorf("last message = %q", end.LastMessage)
		}
	})
}

func TestInterruptAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		}}
		sink := &memory{}
		th, stop := startThread(t, e, sink)
		sub, _ := th.Subscribe(t.Context(), Lossless)
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); !errors.Is(err, ErrIdle) {
			t.Errorf("interrupt of an idle thread = %v", err)
		}
		if _, err := th.Submit(t.Context(), input("one")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		got := until(t, sub, turnEnded)
		if end := got[len(got)-1].Body.(event.TurnEnded); end.Status != event.TurnInterrupted || end.Reason != "interrupted" {
			t.Errorf("end = %+v", end)
		}
		// The host ends in the middle of the next turn: the turn ends first, then what others hold, then the bus.
		if _, err := th.Submit(t.Context(), input("two")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		got = until(t, sub, turnEnded)
		if end := got[len(got)-1].Body.(event.TurnEnded); end.Status != event.TurnInterrupted {
			t.Errorf("end = %+v", end)
		}
		if _, err := sub.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if _, err := th.Submit(t.Context(), input("late")); !errors.Is(err, ErrClosed) {
			t.Errorf("submit after the end: %v", err)
		}
		if e.ended != 1 {
			t.Errorf("End was called %d times", e.ended)
		}
	})
}

func TestPanicCostsItsTurnOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{stream: func(_ context.Context, n int, _ *llm.Request, yield func(llm.Event, error) bool) {
			if n == 1 {
				panic("broken invariant")
			}
			say("still here", yield)
		}}
		th, stop := startThread(t, e, &memory{})
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		for i, want := range []event.TurnStatus{event.TurnFailed, event.TurnCompleted} {
			if _, err := th.Submit(t.Context(), input("go")); err != nil {
				t.Fatal(err)
			}
			got := until(t, sub, turnEnded)
			if end := got[len(got)-1].Body.(event.TurnEnded); end.Status != want {
				t.Errorf("turn %d: %+v", i, end)
			}
		}
	})
}

func TestSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("t", &memory{}, 0)
		defer b.close()
		coalesce, _ := b.subscribe(t.Context(), Coalesce)
		lossy, _ := b.subscribe(t.Context(), Disconnect)
		publish := func(bodies ...event.Body) {
			if _, err := b.Publish(t.Context(), "", bodies...); err != nil {
				t.Fatal(err)
			}
		}
		offset := int64(0)
		for range queueBound + 10 {
			publish(event.ItemDelta{Item: "i", Delta: event.DeltaText, Offset: offset, Text: "ab"})
			offset += 2
		}
		publish(event.Notice{Text: "boundary"})
		e, err := coalesce.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := e.Body.(event.ItemDelta); len(d.Text) != 2*(queueBound+10) || d.Offset != 0 {
			t.Errorf("merged delta has %d bytes at %d", len(d.Text), d.Offset)
		}
		if e, _ := coalesce.Next(t.Context()); !reflect.DeepEqual(e.Body, event.Notice{Text: "boundary"}) {
			t.Errorf("behind the deltas: %+v", e)
		}
		var last error
		for range queueBound + 1 {
			if _, last = lossy.Next(t.Context()); last != nil {
				break
			}
		}
		if !errors.Is(last, ErrLagged) {
			t.Errorf("slow subscriber: %v, want %v", last, ErrLagged)
		}
		// A lossless one holds the publisher, and lets it go when it ends.
		lossless, _ := b.subscribe(t.Context(), Lossless)
		done := make(chan struct{})
		go func() { // owned by the test: waited for below
			defer close(done)
			for range queueBound + 1 {
				publish(event.Notice{Text: "x"})
			}
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("the publisher did not wait for a lossless subscriber")
		default:
		}
		lossless.Close()
		<-done

	})
}

func TestRebuild(t *testing.T) {
	user := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "go"}}}
	call := func(id string) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: id, Name: "x", Input: "{}"}}}
	}
	log := func(bodies ...event.Body) []event.Event {
		out := []event.Event{{Seq: 1, Body: event.ThreadStarted{Cwd: "/"}}, {Seq: 2, Turn: "t1", Body: event.TurnStarted{}}}
		for i, b := range bodies {
			out = append(out, event.Event{Seq: uint64(i + 3), Turn: "t1", Body: b})
		}
		return out
	}
	text := func(r *llm.ToolResult) string { return llm.Message{Parts: r.Content}.Text() }
	for _, tc := range []struct {
		name   string
		bodies []event.Body
		want   map[string]string // call → beginning of its output
		kinds  string
	}{
		{
			"started and not ended",
			[]event.Body{event.HistoryAdded{Messages: []llm.Message{user, call("c1")}}, event.CallStarted{Call: "c1", Attempt: 1}},
			map[string]string{"c1": "outcome unknown"}, "call.ended history.added turn.ended",
		},
		{
			"never started",
			[]event.Body{event.HistoryAdded{Messages: []llm.Message{user, call("c1")}}},
			map[string]string{"c1": "aborted: the host stopped before"}, "history.added turn.ended",
		},
		{
			"ended with its output kept",
			[]event.Body{
				event.HistoryAdded{Messages: []llm.Message{user, call("c1"), call("c2")}},
				event.CallStarted{Call: "c1", Attempt: 1}, event.CallStarted{Call: "c2", Attempt: 1},
				event.CallEnded{Call: "c2", Outcome: event.OutcomeOK, Result: &llm.ToolResult{ID: "c2", Content: llm.Parts{&llm.Text{Text: "kept"}}}},
			},
			map[string]string{"c1": "outcome unknown", "c2": "kept"}, "call.ended history.added turn.ended",
		},
		{
			"ended, output lost",
			[]event.Body{
				event.HistoryAdded{Messages: []llm.Message{user, call("c1")}}, event.CallStarted{Call: "c1", Attempt: 1},
				event.CallEnded{Call: "c1", Outcome: event.OutcomeOK},
			},
			map[string]string{"c1": "the call had ended (ok)"}, "history.added turn.ended",
		},
		{
			"question, item and session left open",
			[]event.Body{
				event.ItemStarted{Item: event.Item{ID: "i"}}, event.QuestionAsked{ID: "q"}, event.SessionOpened{Session: "7"},
			},
			nil, "session.exited question.resolved item.completed history.added turn.ended",
		},
		{
			"whole turn",
			[]event.Body{event.HistoryAdded{Messages: []llm.Message{user}}, event.TurnEnded{Status: event.TurnCompleted}}, nil, "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Rebuild(seq(log(tc.bodies...)))
			if err != nil {
				t.Fatal(err)
			}
			h := history.New(s.Messages)
			var kinds []string
			for _, b := range s.repair(h, hostStopped) {
				kinds = append(kinds, b.Kind())
			}
			if got := strings.Join(kinds, " "); got != tc.kinds {
				t.Errorf("repairs = %s, want %s", got, tc.kinds)
			}
			if left := h.Unanswered(); len(left) > 0 {
				t.Errorf("%d calls have no output", len(left))
			}
			for _, m := range h.Messages() {
				for _, p := range m.Parts {
					if r, ok := p.(*llm.ToolResult); ok && !strings.HasPrefix(text(r), tc.want[r.ID]) {
						t.Errorf("output of %s = %q, want it to begin with %q", r.ID, text(r), tc.want[r.ID])
					}
				}
			}
		})
	}
	t.Run("not a thread's log", func(t *testing.T) {
		if _, err := Rebuild(seq([]event.Event{{Seq: 1, Body: event.Notice{}}})); err == nil {
			t.Error("no error")
		}
		if _, err := Rebuild(seq(nil)); err == nil {
			t.Error("no error for an empty log")
		}
	})
}

// Whoever interrupts a given turn learns that another one runs, and gets the answer when the turn has ended.
func TestInterruptTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			<-ctx.Done()
			<-release
			yield(nil, context.Cause(ctx))
		}}
		th, stop := startThread(t, e, &memory{})
		defer stop()
		if err := th.InterruptTurn(t.Context(), "t", orchestrate.ErrInterrupted); !errors.Is(err, ErrIdle) {
			t.Errorf("of an idle thread: %v", err)
		}
		accepted, err := th.Submit(t.Context(), input("one"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		other, ok := errors.AsType[*OtherTurnError](th.InterruptTurn(t.Context(), "t", orchestrate.ErrInterrupted))
		if !ok || other.Want != "t" || other.Is != accepted.Turn {
			t.Errorf("another turn: %v", other)
		}
		// Both callers wait for the end, also the one that comes when the turn is already stopping.
		answers := make(chan error, 2)
		for range 2 {
			go func() { answers <- th.InterruptTurn(t.Context(), accepted.Turn, orchestrate.ErrInterrupted) }() // ends with the turn
			synctest.Wait()
		}
		if len(answers) != 0 {
			t.Error("answered before the turn had ended")
		}
		close(release)
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if err := th.CheckIdle(t.Context()); err != nil {
			t.Errorf("the turn still runs: %v", err)
		}
	})
}
