package thread

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What plugins ask the model in the calls of a turn is the turn's and the thread's, in the events, at the turn's end and
// after a resume, wherever the host died.
func TestRequestsOfCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out, usd := int64(100), int64(10), 0.25
		var th *Thread
		sink := &memory{}
		e := &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
			if err := th.Meter().Report(ctx, th, "t", event.UsageReported{Call: "c1", Usage: llm.Usage{Input: &in, Output: &out}, CostUSD: &usd}); err != nil {
				t.Error(err)
			}
			_ = yield(llm.StepStart{}, nil) && yield(llm.BlockStart{Kind: llm.BlockText, ID: "1"}, nil) && yield(llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "x"}, nil) &&
				yield(llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, nil) && yield(llm.StepFinish{Usage: llm.Usage{Input: &out, Output: &out}}, nil) && yield(llm.Finish{}, nil)
		}}
		th, stop := startThread(t, e, sink)
		defer stop()
		sub, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		perTurn := event.Tokens{Input: 110, Output: 20, Total: 130, Cost: event.Cost{USD: 0.25, Unknown: 1}}
		total := event.Tokens{}
		for range 2 {
			if _, err := th.Submit(t.Context(), input("go")); err != nil {
				t.Fatal(err)
			}
			total = total.Add(perTurn)
			events := until(t, sub, turnEnded)
			if end := events[len(events)-1].Body.(event.TurnEnded); end.TurnUsage != perTurn || end.Usage != total {
				t.Errorf("the turn used %+v, the thread %+v; want %+v and %+v", end.TurnUsage, end.Usage, perTurn, total)
			}
		}
		log := sink.all()
		for cut := 1; cut <= len(log); cut++ {
			s, err := Rebuild(seq(log[:cut]))
			if err != nil {
				t.Fatal(err)
			}
			want := event.Tokens{}
			for _, e := range log[:cut] {
				if r, ok := e.Body.(event.UsageReported); ok {
					want = r.Total
				}
			}
			if s.Usage != want {
				t.Errorf("resumed after %d events: %+v, want %+v", cut, s.Usage, want)
			}
		}
	})
	// Two reports at once may change places on their way to the log.
	report := func(seq uint64, total int64) event.Event {
		return event.Event{Seq: seq, Turn: "t", Body: event.UsageReported{Total: event.Tokens{Input: total, Total: total}}}
	}
	s, err := Rebuild(seq([]event.Event{{Seq: 1, Body: event.ThreadStarted{}}, report(2, 20), report(3, 10)}))
	if err != nil || s.Usage.Total != 20 {
		t.Errorf("%+v, %v", s.Usage, err)
	}
}
