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
		{llm.FinishLength, event.TurnCompleted, "", "cut off at the limit of its length (raw)", 2},
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

// An answer that is none is asked for once more. What was cut off is put together.
func TestAnswersThatAreNone(t *testing.T) {
	cut := func(text string) turntest.Answer {
		a := turntest.Say(turntest.Text(text))
		n := len(a.Events)
		a.Events[n-2], a.Events[n-1] = llm.StepFinish{Reason: llm.FinishLength}, llm.Finish{Reason: llm.FinishLength}
		return a
	}
	nothing, hm, whole := turntest.Say(), turntest.Say(&llm.Reasoning{Text: "hm"}), turntest.Say(turntest.Text("whole"))
	for _, tc := range []struct {
		name     string
		answers  []turntest.Answer
		last     string
		code     string // of the problem; empty: the turn completes
		requests int
	}{
		{"cut once", []turntest.Answer{cut("half "), whole}, "half whole", "", 2},
		{"cut twice", []turntest.Answer{cut("half "), cut("half"), whole}, "", "answer-cut-off", 2},
		{"empty once", []turntest.Answer{nothing, whole}, "whole", "", 2},
		{"empty twice", []turntest.Answer{nothing, nothing, whole}, "", "empty-answer", 2},
		{"reasoning alone", []turntest.Answer{hm, hm, whole}, "", "empty-answer", 2},
		{"cut, then empty", []turntest.Answer{cut("half "), nothing, whole}, "", "empty-answer", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := turntest.New(tc.answers...)
			res := b.Run(t, t.Context(), "go")
			code := ""
			if res.Problem != nil {
				if code = res.Problem.Code; res.Problem.Next == "" {
					t.Error("nothing says what to do")
				}
			}
			if code != tc.code || tc.code == "" && res.LastMessage != tc.last || len(b.Requests()) != tc.requests {
				t.Errorf("%+v %q after %d requests, want %q, %q, %d", res, code, len(b.Requests()), tc.last, tc.code, tc.requests)
			}
		})
	}
}

// Where even a compacted conversation is at the limit, it is not compacted again and again.
func TestCompactionInACircle(t *testing.T) {
	b := desk(c1(1020), summary("so far"), c1(1020), c1(1020), c1(1020), turntest.Say(turntest.Text("done")))
	completed(t, b.Run(t, t.Context(), "U"))
	if n := len(checkpoints(b)); n != 1 {
		t.Errorf("%d compactions, want 1", n)
	}
	if all := strings.Join(warnings(b), "\n"); strings.Count(all, "not compacted again") != 1 {
		t.Errorf("warnings: %s", all)
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
