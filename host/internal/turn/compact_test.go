package turn_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/compact"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

// bulk makes what is replaced longer than what replaces it.
var bulk = strings.Repeat("lorem ipsum ", 200)

func big(s string) llm.Part { return turntest.Text(s + bulk) }

// c1 asks for one call; its output is long.
func c1(used int64) turntest.Answer {
	return turntest.Say(turntest.Call("1", "list", "{}")).Used(used-20, 20)
}

func summary(s string) turntest.Answer { return turntest.Say(turntest.Text(s)).Used(30, 5) }

func refused(code llm.ErrorCode) turntest.Answer {
	return turntest.Answer{Err: &llm.Error{Code: code, Message: "refused: " + code.String()}}
}

// desk is a bench on which a history is compacted at 500 tokens, with a context that is told once.
func desk(answers ...turntest.Answer) *turntest.Bench {
	b := turntest.New(answers...)
	b.Compaction.Limit = 500
	b.Tools = []turntest.Tool{{
		Descriptor: contract.Descriptor{Name: "list", ParallelSafe: true},
		Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			return contract.Text("O" + bulk), nil
		},
	}}
	b.Context = func(*event.Reference) []prompt.Section {
		return []prompt.Section{
			{ID: "D", Role: llm.RoleSystem, Text: "D", Digest: "told"},
			{ID: "X", Role: llm.RoleUser, Text: "<environment_context>X</environment_context>", Digest: "told"},
		}
	}
	return b
}

// deskTold is what the model knows of a desk's context when it was told.
var deskTold = event.Reference{Sections: map[string]string{"D": "told", "X": "told"}}

// layout writes a request in letters: D X context, U and A words, C O calls, S(…) a summary, P the question for one.
func layout(ms []llm.Message) string {
	summary := strings.Split(compact.Summary("|").Text(), "|")
	var out []string
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				s := strings.TrimSuffix(p.Text, bulk)
				switch {
				case s == compact.Prompt("").Text():
					s = "P"
				case strings.HasPrefix(s, "<environment_context>"):
					s = "X"
				case strings.HasPrefix(s, summary[0]):
					s = "S(" + strings.TrimSuffix(strings.TrimPrefix(s, summary[0]), summary[1]) + ")"
				case strings.HasPrefix(s, "<turn_aborted>"):
					s = "aborted"
				}
				out = append(out, s)
			case *llm.ToolCall:
				out = append(out, "C"+p.ID)
			case *llm.ToolResult:
				out = append(out, strings.TrimSuffix(llm.Message{Parts: p.Content}.Text(), bulk)+p.ID)
			}
		}
	}
	return strings.Join(out, " ")
}

func wantLayouts(t *testing.T, b *turntest.Bench, from int, want ...string) {
	t.Helper()
	var got []string
	for _, r := range b.Sent() {
		got = append(got, layout(r.Messages))
	}
	if len(got) < from-1 || !slices.Equal(got[from-1:], want) {
		t.Errorf("requests from %d on of:\n%s\nwant:\n%s", from, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func completed(t *testing.T, res turn.Result) {
	t.Helper()
	if res.Status != event.TurnCompleted {
		t.Fatalf("result %+v: %+v", res, res.Problem)
	}
}

func checkpoints(b *turntest.Bench) (out []event.HistoryCompacted) {
	for _, e := range b.Events() {
		if c, ok := e.Body.(event.HistoryCompacted); ok {
			out = append(out, c)
		}
	}
	return out
}

func TestCompactionInTheMiddleOfATurn(t *testing.T) {
	b := desk(c1(1020), summary("so far"), turntest.Say(turntest.Text("done")))
	b.Hosted, b.Schema = []string{"web_search"}, []byte(`{"type":"object"}`)
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 2, "D X U C1 O1 P", "D X U S(so far)")
	q := b.Sent()[1]
	if before := b.Sent()[0]; !reflect.DeepEqual(q.Tools, before.Tools) || len(q.HostedTools) != 1 || q.ParallelToolCalls != before.ParallelToolCalls || q.ToolChoice != before.ToolChoice {
		t.Errorf("the request for a summary begins unlike the one before: %+v, %+v", q, before)
	}
	if q.OutputSchema != nil {
		t.Errorf("the summary is to match a schema: %s", q.OutputSchema)
	}
	if used, _ := b.Meter.Sum(); used.Total != 1020+35+110 {
		t.Errorf("used %+v, want the sum of all three answers", used)
	}
	c := checkpoints(b)
	if len(c) != 1 || c[0].Trigger != "auto" || c[0].Reason != "context_limit" || c[0].Phase != "mid_turn" {
		t.Fatalf("checkpoints %+v", c)
	}
	if layout(c[0].Messages) != "D X U S(so far)" || c[0].Before < 1020 || c[0].After >= 500 || c[0].ContextWindow != 258_400 {
		t.Errorf("checkpoint from %d to %d of %d: %s", c[0].Before, c[0].After, c[0].ContextWindow, layout(c[0].Messages))
	}
	var items []string
	for _, e := range b.Events() {
		switch body := e.Body.(type) {
		case event.ItemStarted:
			if body.Item.Type == event.ItemCompaction {
				items = append(items, "started")
			}
		case event.ItemCompleted:
			if body.Item.Type == event.ItemCompaction {
				items = append(items, string(body.Item.Status))
			}
		case event.HistoryCompacted:
			items = append(items, "checkpoint")
		}
	}
	if got := strings.Join(items, " "); got != "started checkpoint completed" {
		t.Errorf("events of the item: %s", got)
	}
}

// A broken answer leaves nothing behind: the next try is the same, and the account is that of the whole answer.
func TestAccountOfABrokenStreamIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := desk(c1(1020), turntest.Cut(turntest.Text("halfsum")), summary("whole"), turntest.Say(turntest.Text("done")))
		completed(t, b.Run(t, t.Context(), "U"))
		wantLayouts(t, b, 2, "D X U C1 O1 P", "D X U C1 O1 P", "D X U S(whole)")
		if n := strings.Count(b.Kinds(), "stream.retried"); n != 1 {
			t.Errorf("%d notices of a retry, want 1", n)
		}
	})
}

// An account is never taken from what was said before.
func TestEmptyAccount(t *testing.T) {
	first := turntest.Say(turntest.Text("working"), turntest.Call("1", "list", "{}")).Used(1000, 20)
	b := desk(first, summary(" "), summary("second try"), turntest.Say(turntest.Text("done")))
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 2, "D X U working C1 O1 P", "D X U working C1 O1 P", "D X U S(second try)")

	b = desk(first, turntest.Say().Used(30, 5), turntest.Say().Used(30, 5), turntest.Say(turntest.Text("done")))
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 4, "D X U S("+compact.Missing+")")
}

func TestQuestionThatIsTooLong(t *testing.T) {
	t.Run("the oldest item goes", func(t *testing.T) {
		b := desk(c1(1020), refused(llm.ErrContextOverflow), summary("S"), turntest.Say(turntest.Text("done")))
		completed(t, b.Run(t, t.Context(), "U"))
		wantLayouts(t, b, 2, "D X U C1 O1 P", "X U C1 O1 P", "D X U S(S)")
	})
	t.Run("until nothing is left", func(t *testing.T) {
		answers := []turntest.Answer{c1(1020)}
		for range 20 {
			answers = append(answers, refused(llm.ErrContextOverflow))
		}
		b := desk(answers...)
		res := b.Run(t, t.Context(), "U")
		wantLayouts(t, b, 2, "D X U C1 O1 P", "X U C1 O1 P", "U C1 O1 P", "C1 O1 P", "P")
		if res.Status != event.TurnFailed || res.Problem.Code != llm.ErrContextOverflow.String() {
			t.Errorf("result %+v %+v", res, res.Problem)
		}
	})
}

func TestErrorThatIsFinalEndsACompactionAtOnce(t *testing.T) {
	b := desk(c1(1020), refused(llm.ErrInvalidRequest))
	res := b.Run(t, t.Context(), "U")
	if res.Status != event.TurnFailed || res.Problem.Message != "refused: invalid-request" || len(b.Sent()) != 2 {
		t.Errorf("%d requests, result %+v", len(b.Sent()), res.Problem)
	}
	if !strings.Contains(fmt.Sprint(b.Events()), "failed") || layout(b.History.Messages()) != "D X U C1 O1" {
		t.Errorf("history %s", layout(b.History.Messages()))
	}
}

// A turn that just ends is not compacted; the next one begins with it.
func TestCompactionBeforeATurn(t *testing.T) {
	b := desk(turntest.Say(big("A")).Used(1000, 20), summary("so far"), turntest.Say(turntest.Text("done")))
	completed(t, b.Run(t, t.Context(), "U1"))
	if len(b.Sent()) != 1 {
		t.Fatalf("%d requests of the first turn", len(b.Sent()))
	}
	b.Inbox = &turn.Inbox{}
	completed(t, b.Run(t, t.Context(), "U2"))
	wantLayouts(t, b, 2, "D X U1 A P", "D X U1 S(so far) U2")
	if c := checkpoints(b); len(c) != 1 || c[0].Phase != "pre_turn" || c[0].Reason != "context_limit" {
		t.Errorf("checkpoints %+v", c)
	}
}

// What a user says now counts before it is sent.
func TestIncomingInputCounts(t *testing.T) {
	b := desk(turntest.Say(big("A")).Used(300, 20), summary("so far"), turntest.Say(turntest.Text("done")))
	completed(t, b.Run(t, t.Context(), "U1"))
	b.Inbox = &turn.Inbox{}
	completed(t, b.Run(t, t.Context(), "U2"+bulk))
	wantLayouts(t, b, 2, "D X U1 A P", "D X U1 S(so far) U2")
}

func TestFailedCompactionBeforeATurnKeepsTheInput(t *testing.T) {
	b := desk(turntest.Say(big("A")).Used(1000, 20), refused(llm.ErrInvalidRequest))
	completed(t, b.Run(t, t.Context(), "U1"))
	b.Inbox = &turn.Inbox{}
	res := b.Run(t, t.Context(), "U2")
	if res.Status != event.TurnFailed || layout(b.History.Messages()) != "D X U1 A U2" {
		t.Errorf("result %+v, history %s", res, layout(b.History.Messages()))
	}
}

// A model that refuses a request for its length is asked for an account, and the turn goes on.
func TestOverflowInTheMiddleOfATurn(t *testing.T) {
	b := desk(c1(100), refused(llm.ErrContextOverflow), summary("so far"), turntest.Say(turntest.Text("done")))
	b.Compaction.Limit = 0
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 2, "D X U C1 O1", "D X U C1 O1 P", "D X U S(so far)")

	// Also the first request of a turn may be refused: what the user has just said is before the account then, and stays.
	b = desk(turntest.Say(big("A")), refused(llm.ErrPayloadTooLarge), summary("so far"), turntest.Say(turntest.Text("done")))
	b.Compaction.Limit = 0
	completed(t, b.Run(t, t.Context(), "U1"))
	b.Inbox = &turn.Inbox{}
	completed(t, b.Run(t, t.Context(), "U2"))
	wantLayouts(t, b, 2, "D X U1 A U2", "D X U1 A U2 P", "U1 D X U2 S(so far)")

	// Once: what is still too long then does not fit.
	b = desk(c1(100), refused(llm.ErrContextOverflow), summary("so far"), refused(llm.ErrContextOverflow))
	b.Compaction.Limit = 0
	res := b.Run(t, t.Context(), "U")
	if res.Status != event.TurnFailed || res.Problem.Code != llm.ErrContextOverflow.String() || len(b.Sent()) != 4 {
		t.Errorf("%d requests, result %+v", len(b.Sent()), res.Problem)
	}

	// A first message that is too long leaves nothing to be shortened.
	b = desk(refused(llm.ErrContextOverflow))
	if res := b.Run(t, t.Context(), "U"); res.Status != event.TurnFailed || len(b.Sent()) != 1 {
		t.Errorf("%d requests, result %+v", len(b.Sent()), res)
	}
}

// The context stands before the last of the user's words, and an earlier account goes with what it tells of.
func TestCompactionByTheUser(t *testing.T) {
	b := desk(turntest.Say(big("A1")), turntest.Say(big("A2")), summary("first"), turntest.Say(big("A3")), summary("second"),
		turntest.Say(turntest.Text("A4")))
	b.Compaction.Limit = 0
	say := func(s string) {
		t.Helper()
		b.Inbox = &turn.Inbox{}
		completed(t, b.Run(t, t.Context(), s))
	}
	compacted := func() {
		t.Helper()
		b.Inbox = &turn.Inbox{}
		completed(t, b.Compact(t, t.Context()))
	}
	say("U1")
	say("U2")
	compacted()
	say("U3")
	compacted()
	say("U4")
	wantLayouts(t, b, 3, "D X U1 A1 U2 A2 P", "U1 D X U2 S(first) U3", "U1 D X U2 S(first) U3 A3 P", "U1 U2 D X U3 S(second) U4")
	if c := checkpoints(b); len(c) != 2 || c[0].Trigger != "manual" || c[0].Reason != "user_requested" || c[0].Phase != "standalone_turn" {
		t.Errorf("checkpoints %+v", c)
	}
}

// Where nothing would be gained the history stays, and is left alone until there is more of it.
func TestCheckpointThatIsNotSmaller(t *testing.T) {
	b := desk(turntest.Say(turntest.Text("A")).Used(1000, 20), summary(bulk), turntest.Say(turntest.Text("B")).Used(1000, 20), summary("short"))
	completed(t, b.Run(t, t.Context(), "U1"))
	b.Inbox = &turn.Inbox{}
	completed(t, b.Run(t, t.Context(), "U2"))
	wantLayouts(t, b, 2, "D X U1 A P", "D X U1 A U2")
	if len(checkpoints(b)) != 0 || !strings.Contains(b.Kinds(), "notice") {
		t.Errorf("events:\n%s", b.Kinds())
	}

	b = desk(turntest.Say(turntest.Text("A")).Used(1000, 20), summary(bulk), refused(llm.ErrContextOverflow))
	completed(t, b.Run(t, t.Context(), "U1"))
	b.Inbox = &turn.Inbox{}
	if res := b.Run(t, t.Context(), "U2"); res.Status != event.TurnFailed || len(b.Sent()) != 3 {
		t.Errorf("%d requests, result %+v: nothing is new since the last try", len(b.Sent()), res)
	}
	b.Inbox = &turn.Inbox{}
	completed(t, b.Compact(t, t.Context()))
	if len(b.Sent()) != 3 {
		t.Errorf("%d requests, though the user wants what can't be", len(b.Sent()))
	}
}

// What was said meanwhile waits until the model has gone on with what it was about to do.
func TestSteeringWaitsForTheRequestAfterACompaction(t *testing.T) {
	b := desk(c1(1020), summary("so far"), turntest.Say(turntest.Text("one")), turntest.Say(turntest.Text("two")))
	b.OnStream = func(n int) {
		if n == 1 {
			b.Inbox.Add(turn.Input{Parts: []llm.Part{turntest.Text("steer")}})
		}
	}
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 2, "D X U C1 O1 P", "D X U S(so far)", "D X U S(so far) one steer")

	// Where the model had nothing left to do, it is what the turn goes on with.
	b = desk(turntest.Say(big("A")).Used(1000, 20), summary("so far"), turntest.Say(turntest.Text("two")))
	b.OnStream = func(n int) {
		if n == 1 {
			b.Inbox.Add(turn.Input{Parts: []llm.Part{turntest.Text("steer")}})
		}
	}
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 2, "D X U A P", "D X U S(so far) steer")
}

// An interrupt ends the question at once; the history is as it was.
func TestInterruptedCompaction(t *testing.T) {
	b := desk(c1(1020), summary("so far"))
	ctx, cancel := context.WithCancelCause(t.Context())
	b.OnStream = func(n int) {
		if n == 2 {
			cancel(orchestrate.ErrInterrupted)
		}
	}
	res := b.Run(t, ctx, "U")
	if res.Status != event.TurnInterrupted || layout(b.History.Messages()) != "D X U C1 O1 aborted" {
		t.Errorf("result %+v, history %s", res, layout(b.History.Messages()))
	}
}

func TestAnotherModelTakesLess(t *testing.T) {
	before := turntest.New(summary("by the old one"))
	before.Row.ID = "old"
	before.Row.ContextWindow = 100_000
	run := func(active int64, b *turntest.Bench) {
		t.Helper()
		b.Compaction.Limit = 0
		b.Row.ContextWindow = 1000 // limit 900
		b.History.Append(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{turntest.Text("U1")}},
			llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{big("A1")}})
		b.History.Counted(active, active)
		b.History.SetContextState(&deskTold)
		b.Before = func(context.Context) (*turn.Fallback, error) {
			return &turn.Fallback{Model: before, Row: before.Row, Request: llm.Request{Model: "old"}, Output: history.PolicyOf(before.Row)}, nil
		}
		completed(t, b.Run(t, t.Context(), "U2"))
	}
	b := desk(turntest.Say(turntest.Text("done")))
	run(5000, b)
	if got := before.Sent(); len(got) != 1 || got[0].Model != "old" || layout(got[0].Messages) != "U1 A1 P" {
		t.Errorf("the old model was asked %d times", len(got))
	}
	wantLayouts(t, b, 1, "D X U1 S(by the old one) U2")
	if c := checkpoints(b); len(c) != 1 || c[0].Reason != "model_downshift" {
		t.Errorf("checkpoints %+v", c)
	}

	// It fits: nothing happens.
	b = desk(turntest.Say(turntest.Text("done")))
	run(100, b)
	wantLayouts(t, b, 1, "U1 A1 U2")

	// It fits just so: the new model can read it all.
	b = desk(summary("by the new one"), turntest.Say(turntest.Text("done")))
	run(900-history.Estimate([]llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{turntest.Text("U2")}}}), b)
	wantLayouts(t, b, 1, "U1 A1 P", "D X U1 S(by the new one) U2")
	if c := checkpoints(b); len(c) != 1 || c[0].Reason != "context_limit" || len(before.Sent()) != 1 {
		t.Errorf("checkpoints %+v, and the old model was asked %d times", c, len(before.Sent()))
	}

	// The old model can't: the new one is asked, and nobody stands in for the old one.
	before.Answers = append(before.Answers, refused(llm.ErrQuotaExceeded))
	b = desk(summary("by the new one"), turntest.Say(turntest.Text("done")))
	b.Fallback = func(context.Context, *llm.Error) (*turn.Fallback, error) {
		t.Error("another model was opened")
		return nil, errors.New("there is none")
	}
	run(5000, b)
	wantLayouts(t, b, 1, "U1 A1 P", "D X U1 S(by the new one) U2")
	if b.Sent()[1].Model != "m" {
		t.Errorf("model %q goes on", b.Sent()[1].Model)
	}
}

func TestModelThatStandsInWritesTheAccount(t *testing.T) {
	spare := turntest.New(summary("by another"), turntest.Say(turntest.Text("done")))
	spare.Row.ID = "spare"
	b := desk(c1(1020), refused(llm.ErrQuotaExceeded))
	b.Fallback = func(context.Context, *llm.Error) (*turn.Fallback, error) {
		return &turn.Fallback{Model: spare, Row: spare.Row, Request: llm.Request{Model: "spare"}, Output: history.PolicyOf(spare.Row)}, nil
	}
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, spare, 1, "D X U C1 O1 P", "D X U S(by another)")
}

// A provider that does not count its tokens is no reason to run into the end of the window.
func TestLimitWithoutUsage(t *testing.T) {
	b := desk(c1(0), summary("so far"), turntest.Say(turntest.Text("done")))
	for i, ev := range b.Answers[0].Events {
		if f, ok := ev.(llm.StepFinish); ok {
			f.Usage = llm.Usage{}
			b.Answers[0].Events[i] = f
		}
	}
	completed(t, b.Run(t, t.Context(), "U"))
	wantLayouts(t, b, 2, "D X U C1 O1 P", "D X U S(so far)")
}

// Whatever a turn does and wherever it is compacted: each request has an output for every call and a call for every output,
// and what the user said last.
func TestEveryRequestIsWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"call", "calls", "say", "overflow", "empty", "bad"}), 1, 12).Draw(rt, "steps")
		b := desk()
		b.Compaction.Limit = rapid.Int64Range(0, 2000).Draw(rt, "limit")
		at := 0
		b.OnStream = func(n int) {
			step := steps[at%len(steps)]
			at++
			id := fmt.Sprint(at)
			var a turntest.Answer
			switch step {
			case "call":
				a = turntest.Say(turntest.Call(id, "list", "{}"))
			case "calls":
				a = turntest.Say(turntest.Text("look"), turntest.Call(id, "list", "{}"), turntest.Call(id+"b", "nope", "{}"))
			case "say":
				a = turntest.Say(big("word"))
			case "overflow":
				a = refused(llm.ErrContextOverflow)
			case "empty":
				a = turntest.Say()
			case "bad":
				a = refused(llm.ErrInvalidRequest)
			}
			b.Answers = append(b.Answers, a.Used(rapid.Int64Range(1, 3000).Draw(rt, "used"), 10))
		}
		b.Limits.Samplings = 10
		for i := range 3 {
			said := fmt.Sprint("U", i)
			b.Inbox = &turn.Inbox{}
			from := len(b.Sent())
			b.Run(t, t.Context(), said)
			for _, r := range b.Sent()[from:] {
				h := history.New(r.Messages)
				if n := len(h.Unanswered()); n > 0 {
					rt.Fatalf("%d calls without an output in %s", n, layout(r.Messages))
				}
				if n, m := parts(h.ForPrompt(history.Traits{})), parts(r.Messages); n != m {
					rt.Fatalf("outputs without a call in %s", layout(r.Messages))
				}
			}
			h := layout(b.History.Messages())
			if !strings.Contains(h, said) {
				rt.Fatalf("%q is not in %s", said, h)
			}
			if strings.Count(h, "S(") > 1 {
				rt.Fatalf("two accounts in %s", h)
			}
		}
		for _, c := range checkpoints(b) {
			if c.After >= c.Before {
				rt.Fatalf("a checkpoint made %d tokens %d", c.Before, c.After)
			}
		}
	})
}

func parts(ms []llm.Message) (n int) {
	for _, m := range ms {
		n += len(m.Parts)
	}
	return n
}
