package turn_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// An answer that ends otherwise than by the model's own will is not passed off as one that is complete.
func TestWhyAnAnswerEnds(t *testing.T) {
	for _, tc := range []struct {
		reason   llm.FinishReason
		status   event.TurnStatus
		code     string
		says     string // of the problem, or of the notice
		requests int
	}{
		{llm.FinishStop, event.TurnCompleted, "", "", 1},
		{llm.FinishUnknown, event.TurnCompleted, "", "", 1},
		{llm.FinishLength, event.TurnCompleted, "", "cut off at the limit of its length (raw)", 1},
		{llm.FinishContentFilter, event.TurnFailed, "content-policy", "stopped the answer under its content policy (raw)", 1},
		{llm.FinishError, event.TurnCompleted, "", "could not finish the answer (raw)", 2},
	} {
		t.Run(tc.reason.String(), func(t *testing.T) {
			first := turntest.Say(turntest.Text("half"))
			n := len(first.Events)
			end := llm.StepFinish{Reason: tc.reason, RawReason: "raw", Usage: tokens(5, 1)}
			first.Events[n-2], first.Events[n-1] = end, llm.Finish{Reason: tc.reason}
			b := turntest.New(first, turntest.Say(turntest.Text("whole")))
			res := b.Run(t, t.Context(), "go")
			code, said := "", ""
			if res.Problem != nil {
				code, said = res.Problem.Code, res.Problem.Message
				if res.Problem.Next == "" {
					t.Error("nothing says what to do")
				}
			}
			for _, e := range b.Events() {
				switch body := e.Body.(type) {
				case event.Notice:
					said += body.Text
				case event.StreamRetried:
					said += body.Cause
				}
			}
			if res.Status != tc.status || code != tc.code || !strings.Contains(said, tc.says) || (tc.says == "") != (said == "") {
				t.Errorf("%v %s: %q, want %v %s: %q", res.Status, code, said, tc.status, tc.code, tc.says)
			}
			if len(b.Requests()) != tc.requests {
				t.Errorf("%d requests, want %d", len(b.Requests()), tc.requests)
			}
			kept := turntest.Render(b.History.Messages())
			if again := tc.reason == llm.FinishError; strings.Contains(kept, "half") == again { // then it is said once more
				t.Errorf("history:\n%s", kept)
			}
			if used := fmt.Sprint(b.Meter.Sum()); !strings.Contains(used, "6") {
				t.Errorf("what the answer used is not counted: %s", used)
			}
		})
	}
}

// An error that nobody can name is worth one more try where an answer was well until then, and none before.
func TestUnknownErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		parts    []llm.Part
		requests int
	}{
		{"inside an answer", []llm.Part{turntest.Text("half")}, 2},
		{"before it", nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			broken := turntest.Cut(tc.parts...)
			broken.Err = &llm.Error{Code: llm.ErrUnknown, Message: "odd"}
			if tc.parts == nil {
				broken.Events = nil
			}
			b := turntest.New(broken, broken, turntest.Say(turntest.Text("never")))
			if res := b.Run(t, t.Context(), "go"); res.Problem == nil || !strings.HasPrefix(res.Problem.Message, "odd") {
				t.Errorf("result %+v", res)
			}
			if len(b.Requests()) != tc.requests {
				t.Errorf("%d requests, want %d", len(b.Requests()), tc.requests)
			}
		})
	}
}

// What is told of a turn at its end comes behind everything else, also when the turn was stopped or failed.
func TestClosingIsLast(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer turntest.Answer
		stop   bool
	}{
		{name: "completed", answer: turntest.Say(turntest.Text("hi"))},
		{name: "failed", answer: turntest.Answer{Err: &llm.Error{Code: llm.ErrInvalidRequest, Message: "no"}}},
		{name: "stopped", answer: turntest.Say(turntest.Text("hi")), stop: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := turntest.New(tc.answer)
			b.OnEnd = func(ctx context.Context) []event.Body {
				if ctx.Err() != nil {
					t.Error("a turn that was stopped can't say its last word")
				}
				return []event.Body{event.TurnDiff{Diff: "d"}}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.stop {
				cancel()
			}
			b.Run(t, ctx, "go")
			all := b.Events()
			if d, ok := all[len(all)-1].Body.(event.TurnDiff); !ok || d.Diff != "d" {
				t.Errorf("the last event is %+v", all[len(all)-1].Body)
			}
		})
	}
}
