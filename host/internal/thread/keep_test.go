package thread

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// said counts how often each text stands in the messages of users.
func said(ms []llm.Message) map[string]int {
	out := map[string]int{}
	for _, m := range ms {
		if m.Role == llm.RoleUser {
			out[m.Text()]++
		}
	}
	return out
}

func recorded(t *testing.T, sink *memory) []llm.Message {
	t.Helper()
	s, err := Rebuild(seq(sink.all()))
	if err != nil {
		t.Fatal(err)
	}
	return s.Messages
}

// What the store refuses takes no number: the events behind it are stored.
func TestRefusedEventsLeaveNoGap(t *testing.T) {
	sink := &memory{}
	b := newBus("t", sink, 0)
	defer b.close()
	if _, err := b.Publish(t.Context(), "", event.Notice{Text: "one"}, event.PluginEvent{Payload: json.RawMessage(`{not JSON`)}); err == nil {
		t.Error("an event that is no JSON was stored")
	}
	if seq, err := b.Publish(t.Context(), "", event.Notice{Text: "two"}); err != nil || seq != 1 {
		t.Errorf("the next event: number %d, %v", seq, err)
	}
}

// Whatever ends a turn, what was said to it is in the log once, and so is what joined it.
func TestInputOutlivesItsTurn(t *testing.T) {
	blocked := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for _, tc := range []struct {
		name   string
		plan   func(context.Context, *Plan) error
		stream func(ctx context.Context, yield func(llm.Event, error) bool)
		stop   bool // interrupt it
		status event.TurnStatus
	}{
		{"plan fails", func(context.Context, *Plan) error { time.Sleep(time.Second); return errors.New("no provider") }, nil, false, event.TurnFailed}, // in the bubble
		{"plan panics", func(context.Context, *Plan) error { time.Sleep(time.Second); panic("broken invariant") }, nil, false, event.TurnFailed},       // in the bubble
		{"plan is interrupted", func(ctx context.Context, _ *Plan) error { return blocked(ctx) }, nil, true, event.TurnInterrupted},
		{"interrupted before the first request", func(ctx context.Context, _ *Plan) error { _ = blocked(ctx); return nil }, nil, true, event.TurnInterrupted},
		{"model panics", nil, func(context.Context, func(llm.Event, error) bool) { time.Sleep(time.Second); panic("broken invariant") }, false, event.TurnFailed}, // in the bubble
		{"model fails", nil, func(_ context.Context, yield func(llm.Event, error) bool) {
			time.Sleep(time.Second) // in the bubble
			yield(nil, &llm.Error{Code: llm.ErrQuotaExceeded})
		}, false, event.TurnFailed},
		{"answer is interrupted", nil, func(ctx context.Context, yield func(llm.Event, error) bool) { yield(nil, blocked(ctx)) }, true, event.TurnInterrupted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &memory{}
				e := &engine{plan: tc.plan, stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
					tc.stream(ctx, yield)
				}}
				th, stop := startThread(t, e, sink)
				sub, _ := th.Subscribe(t.Context(), Lossless)
				if _, err := th.Submit(t.Context(), input("go")); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if a, err := th.Submit(t.Context(), input("and this")); err != nil || !a.Steered {
					t.Fatalf("%+v, %v", a, err)
				}
				if tc.stop {
					if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
						t.Fatal(err)
					}
				}
				got := until(t, sub, turnEnded)
				if end := got[len(got)-1].Body.(event.TurnEnded); end.Status != tc.status {
					t.Errorf("end = %+v", end)
				}
				first := slices.IndexFunc(got, func(e event.Event) bool { return e.Turn != "" })
				if kind := got[first].Body.Kind(); kind != (event.TurnStarted{}).Kind() {
					t.Errorf("a turn begins with %s", kind)
				}
				stop()
				if n := said(recorded(t, sink)); n["go"] != 1 || n["and this"] != 1 {
					t.Errorf("in the history: %v", n)
				}
			})
		})
	}
}

// The marker says who stopped the turn: a person on purpose, or the host's end.
func TestMarkerSaysWhoStoppedTheTurn(t *testing.T) {
	for _, tc := range []struct {
		cause error
		want  string
	}{{orchestrate.ErrInterrupted, "on purpose"}, {orchestrate.ErrShutdown, "The program that runs you stopped"}, {orchestrate.ErrReplaced, ""}} {
		synctest.Test(t, func(t *testing.T) {
			sink := &memory{}
			th, stop := startThread(t, &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
				<-ctx.Done()
				yield(nil, context.Cause(ctx))
			}}, sink)
			if _, err := th.Submit(t.Context(), input("go")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if tc.cause != orchestrate.ErrShutdown {
				if err := th.Interrupt(t.Context(), tc.cause); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			stop()
			ms := recorded(t, sink)
			if got := ms[len(ms)-1].Text(); tc.want == "" && got != "go" || !strings.Contains(got, tc.want) {
				t.Errorf("%v: the history ends with %q", tc.cause, got)
			}
		})
	}
}

// A subscriber that never reads holds the turn for a while, as it asked to, and not the end of the thread.
func TestStalledSubscriberDoesNotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th, stop := startThread(t, &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			yield(llm.StepStart{}, nil)
			yield(llm.BlockStart{Kind: llm.BlockText, ID: "1"}, nil)
			for yield(llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "x"}, nil) {
			}
		}}, &memory{})
		stalled, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("go")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took > closeTimeout {
			t.Errorf("the end took %v", took)
		}
		for err == nil {
			_, err = stalled.Next(t.Context())
		}
		if !errors.Is(err, ErrLagged) {
			t.Errorf("the subscriber was told %v", err)
		}
	})
}

// A store that takes nothing more ends the turn, and whoever waits for the turn learns of it.
func TestEndOfTurnIsToldThoughTheStoreIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{refuse: func(e event.Event) error {
			if e.Turn != "" {
				return errors.New("the disk is full")
			}
			return nil
		}}
		th, stop := startThread(t, &engine{}, sink)
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		for range 2 {
			if _, err := th.Submit(t.Context(), input("go")); err != nil {
				t.Fatal(err)
			}
			got := until(t, sub, turnEnded)
			last := got[len(got)-1]
			if end := last.Body.(event.TurnEnded); end.Status != event.TurnFailed || !strings.Contains(end.Error.Message, "disk is full") {
				t.Errorf("end = %+v", end)
			}
			if last.Seq != 0 {
				t.Errorf("an event that is not stored has the number %d", last.Seq)
			}
		}
	})
}

func TestSubmissionsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		sink := &memory{}
		th, stop := startThread(t, &engine{stream: func(_ context.Context, n int, _ *llm.Request, yield func(llm.Event, error) bool) {
			if n == 1 {
				<-release
			}
			say("ok", yield)
		}}, sink)
		if _, err := th.Submit(t.Context(), input("one")); err != nil {
			t.Fatal(err)
		}
		shaped := func(text string) Submission {
			s := input(text)
			s.OutputSchema = []byte(`{}`)
			return s
		}
		ctx, leave := context.WithCancel(t.Context())
		gone, stays := make(chan error, 1), make(chan error, 1)
		go func() { _, err := th.Submit(ctx, shaped("withdrawn")); gone <- err }() // owned by the test: received below
		synctest.Wait()
		go func() { _, err := th.Submit(t.Context(), shaped("two")); stays <- err }() // owned by the test: received below
		synctest.Wait()
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a submission that went away: %v", err)
		}
		close(release)
		if err := <-stays; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		stop()
		if n := said(recorded(t, sink)); n["one"] != 1 || n["two"] != 1 || n["withdrawn"] != 0 {
			t.Errorf("in the history: %v", n)
		}
	})
	th := New(Config{ID: "t", Start: &event.ThreadStarted{}, Sink: &memory{}})
	for _, blank := range []Submission{{}, input(""), input(" \n")} {
		if _, err := th.Submit(t.Context(), blank); err == nil || err.Error() != "input must not be empty" {
			t.Errorf("%+v: %v", blank, err)
		}
	}
}

// A coalescing subscriber that went away without a word costs a bounded queue.
func TestCoalescingQueueIsBounded(t *testing.T) {
	b := newBus("t", &memory{}, 0)
	defer b.close()
	s, err := b.subscribe(t.Context(), Coalesce)
	if err != nil {
		t.Fatal(err)
	}
	interleaved := map[event.ItemID]int64{}
	publish := func(body event.Body) {
		if _, err := b.Publish(t.Context(), "", body); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		for _, item := range []event.ItemID{"a", "b", "c"} {
			publish(event.ItemDelta{Item: item, Delta: event.DeltaOutput, Offset: interleaved[item], Text: "xx"})
			interleaved[item] += 2
		}
	}
	if n := len(s.mu.queue); n != 3 {
		t.Errorf("%d events wait for three items that grow at once", n)
	}
	for range coalesceBound {
		publish(event.SessionOutput{Session: "1", Text: "x"})
	}
	for err == nil {
		_, err = s.Next(t.Context())
	}
	if !errors.Is(err, ErrLagged) {
		t.Errorf("far behind: %v", err)
	}
}

// A repair may itself be cut off anywhere: the next one finishes it and says the same.
func TestRepairThatWasCutOff(t *testing.T) {
	call := func(id string) llm.Message {
		return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: id, Name: "x", Input: "{}"}}}
	}
	log := []event.Event{
		{Seq: 1, Body: event.ThreadStarted{Cwd: "/"}}, {Seq: 2, Turn: "t1", Body: event.TurnStarted{}},
		{Seq: 3, Turn: "t1", Body: event.HistoryAdded{Messages: []llm.Message{call("again")}}},
		{Seq: 4, Turn: "t1", Body: event.CallStarted{Call: "again", Attempt: 1}},
		{Seq: 5, Turn: "t1", Body: event.CallEnded{Call: "again", Outcome: event.OutcomeOK}},
		{Seq: 6, Turn: "t1", Body: event.HistoryAdded{Messages: []llm.Message{
			{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "again", Content: llm.Parts{&llm.Text{Text: "first"}}}}},
			call("again"), call("c2"),
		}}},
		{Seq: 7, Turn: "t1", Body: event.ItemStarted{Item: event.Item{ID: "i2"}}},
		{Seq: 8, Turn: "t1", Body: event.ItemStarted{Item: event.Item{ID: "i1"}}},
		{Seq: 9, Turn: "t1", Body: event.CallStarted{Call: "again", Attempt: 1}},
		{Seq: 10, Turn: "t1", Body: event.CallStarted{Call: "again/1", Attempt: 1, Parents: []event.CallID{"again"}}},
		{Seq: 11, Turn: "t1", Body: event.CallStarted{Call: "again", Attempt: 2}},
		{Seq: 12, Turn: "t1", Body: event.SessionOpened{Session: "s"}},
	}
	repair := func(log []event.Event) ([]event.Event, *history.History) {
		s, err := Rebuild(seq(log))
		if err != nil {
			t.Fatal(err)
		}
		h := history.New(s.Messages)
		out := append([]event.Event(nil), log...)
		for _, b := range s.repair(h, hostStopped) {
			out = append(out, event.Event{Seq: uint64(len(out) + 1), Turn: s.OpenTurn, Body: b})
		}
		return out, h
	}
	whole, _ := repair(log)
	var ended []string
	for _, e := range whole[len(log):] {
		if c, ok := e.Body.(event.CallEnded); ok {
			ended = append(ended, string(c.Call))
		}
	}
	if got := strings.Join(ended, " "); got != "again again/1" {
		t.Errorf("journal entries closed: %s", got)
	}
	for cut := len(log); cut <= len(whole); cut++ {
		again, h := repair(whole[:cut])
		if third, _ := repair(again); len(third) != len(again) {
			t.Errorf("cut at %d: a repaired log is repaired again", cut)
		}
		outputs := map[string][]string{}
		for _, m := range h.Messages() {
			for _, p := range m.Parts {
				if r, ok := p.(*llm.ToolResult); ok {
					outputs[r.ID] = append(outputs[r.ID], llm.Message{Parts: r.Content}.Text())
				}
			}
		}
		if o := outputs["again"]; len(o) != 2 || !strings.HasPrefix(o[1], "outcome unknown") {
			t.Errorf("cut at %d: outputs of the call that had started: %q", cut, o)
		}
		if o := outputs["c2"]; len(o) != 1 || !strings.HasPrefix(o[0], "aborted: the host stopped before") {
			t.Errorf("cut at %d: outputs of the call that had not: %q", cut, o)
		}
		markers := 0
		for text, n := range said(h.Messages()) {
			if strings.HasPrefix(text, "<turn_aborted>") {
				markers += n
			}
		}
		if markers != 1 {
			t.Errorf("cut at %d: %d markers", cut, markers)
		}
	}
}
