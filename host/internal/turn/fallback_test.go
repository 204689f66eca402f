package turn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// down answers with an error and nothing else.
func down(code llm.ErrorCode, retryable bool) turntest.Answer {
	return turntest.Answer{Err: &llm.Error{Code: code, Message: "down: " + code.String(), Retryable: retryable, Next: "wait"}}
}

// standIns gives a bench models that take over one after the other.
func standIns(b *turntest.Bench, others ...*turntest.Bench) {
	var why []string
	b.Fallback = func(_ context.Context, e *llm.Error) (*turn.Fallback, error) {
		why = append(why, e.Error())
		if len(others) == 0 {
			return nil, &llm.Error{Code: e.Code, Message: "nobody can answer: " + strings.Join(why, "; ")}
		}
		next := others[0]
		others = others[1:]
		return &turn.Fallback{
			Model: next, Provider: "spare", Row: next.Row, Request: llm.Request{Model: next.Row.ID}, Output: history.PolicyOf(next.Row),
			Notices: []event.Notice{{Level: "warning", Text: next.Row.ID + " goes on: " + e.Error()}},
		}, nil
	}
}

func notices(b *turntest.Bench) (out []string) {
	for _, e := range b.Events() {
		if n, ok := e.Body.(event.Notice); ok {
			out = append(out, n.Text)
		}
	}
	return out
}

// Where the model can't answer another goes on with all that was said; where the request is to blame, no other would do
// better.
func TestAnotherModelGoesOn(t *testing.T) {
	for code := llm.ErrUnknown; code <= llm.ErrOverloaded; code++ {
		goesOn := map[llm.ErrorCode]bool{
			llm.ErrNoRoute: true, llm.ErrAuthentication: true, llm.ErrQuotaExceeded: true, llm.ErrRateLimit: true,
			llm.ErrOverloaded: true, llm.ErrProviderInternal: true, llm.ErrTransport: true,
		}[code]
		t.Run(code.String(), func(t *testing.T) {
			spare := turntest.New(turntest.Say(turntest.Call("c2", "echo", `{}`)), turntest.Say(turntest.Text("done")))
			spare.Row.ID = "spare"
			b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), down(code, false))
			if !goesOn { // a request that is too long is asked again with less
				b.Answers = append(b.Answers, slices.Repeat([]turntest.Answer{down(code, false)}, 5)...)
			}
			b.Tools = []turntest.Tool{echo("echo")}
			standIns(b, spare)
			res := b.Run(t, t.Context(), "go")
			if !goesOn {
				if res.Status != event.TurnFailed || res.Problem.Code != code.String() || len(spare.Requests()) > 0 {
					t.Errorf("result %+v after %d requests to another", res, len(spare.Requests()))
				}
				return
			}
			if res.Status != event.TurnCompleted || len(b.Requests()) != 2 || len(spare.Requests()) != 2 {
				t.Fatalf("result %+v after %d and %d requests", res.Problem, len(b.Requests()), len(spare.Requests()))
			}
			wantRequest(t, spare, 2, `
		user: go
		call c1: echo {}
		output c1: ran {}
		call c2: echo {}
		output c2: ran {}`)
			if n := notices(b); len(n) != 1 || n[0] != "spare goes on: down: "+code.String() {
				t.Errorf("notices %q", n)
			}
			var who []string
			for _, e := range b.Events() {
				if r, ok := e.Body.(event.UsageReported); ok {
					who = append(who, r.Provider+"/"+r.ModelName)
				}
			}
			if got := strings.Join(who, " "); got != "fake/m spare/spare spare/spare" {
				t.Errorf("usage is reported of %s", got)
			}
		})
	}
}

// A model is given up after its own retries, and each is tried once: the loop has an end.
func TestEachModelIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := func() *turntest.Bench {
			b := turntest.New()
			for range 6 {
				b.Answers = append(b.Answers, down(llm.ErrRateLimit, true))
			}
			return b
		}
		b, one, two := busy(), busy(), turntest.New(down(llm.ErrAuthentication, false))
		standIns(b, one, two)
		res := b.Run(t, t.Context(), "go")
		if p := res.Problem; res.Status != event.TurnFailed || p.Code != "authentication" ||
			p.Message != "nobody can answer: down: rate-limit (asked 6 times); down: rate-limit (asked 6 times); down: authentication" {
			t.Errorf("result %+v", p)
		}
		if got := fmt.Sprint(len(b.Requests()), len(one.Requests()), len(two.Requests())); got != "6 6 1" {
			t.Errorf("requests %s, want 6 6 1", got)
		}
	})
}

// A connection that broke inside an answer worked: it is not the model that is out of reach.
func TestBrokenAnswerIsNoReasonForAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := turntest.Cut(turntest.Text("half"))
		cut.Err = &llm.Error{Code: llm.ErrTransport, Message: "reset", Retryable: true}
		b := turntest.New(cut, cut, cut, cut, cut, cut)
		spare := turntest.New(turntest.Say(turntest.Text("done")))
		standIns(b, spare)
		if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnFailed || res.Problem.Code != "transport" {
			t.Errorf("result %+v", res)
		}
	})
}

// The tries of the provider and those of the turn are bounded together.
func TestPostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := func(n int) turntest.Answer {
			a := down(llm.ErrProviderInternal, true)
			for i := 2; i <= n; i++ {
				a.Events = append(a.Events, llm.Attempt{N: i, DelayMS: 1, Reason: "500"})
			}
			return a
		}
		b := turntest.New(tries(5), tries(5), tries(2))
		res := b.Run(t, t.Context(), "go")
		if res.Problem == nil || res.Problem.Message != "down: provider-internal (asked 12 times)" {
			t.Errorf("result %+v", res.Problem)
		}
		if got := fmt.Sprint(b.Attempts()); got != "[12 7 2]" {
			t.Errorf("tries that were allowed: %s", got)
		}
	})
}

// Who asks for more patience than there is gets none, and the user reads until when.
func TestTooLongADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := down(llm.ErrRateLimit, true)
		busy.Err.(*llm.Error).RetryAfter = 2 * time.Hour
		b := turntest.New(busy)
		began := time.Now()
		p := b.Run(t, t.Context(), "go").Problem
		until := began.Add(2 * time.Hour).UTC().Format("2006-01-02 15:04:05 MST")
		if p == nil || !strings.Contains(p.Message, "asks to wait 2h0m0s, until "+until) || p.Code != "rate-limit" || p.Next == "wait" {
			t.Errorf("problem %+v", p)
		}
		if time.Since(began) > 0 || len(b.Requests()) != 1 {
			t.Errorf("waited %v, asked %d times", time.Since(began), len(b.Requests()))
		}
	})
}

// adjuster continues a turn with other models, or with none.
type adjuster func(turn.Adjustment) (*turn.Fallback, error)

func (f adjuster) Adjust(_ context.Context, to turn.Adjustment) (*turn.Fallback, error) { return f(to) }

// What the user changes in a running turn applies from the next request on. Several changes are one, and a change that fails changes nothing.
func TestAdjustARunningTurn(t *testing.T) {
	call := func(id string) turntest.Answer { return turntest.Say(turntest.Call(id, "change", `{}`)) }
	for _, tc := range []struct {
		name    string
		changes []turn.Adjustment
		want    turn.Adjustment
		err     error
	}{
		{"a model", []turn.Adjustment{{Model: "spare"}}, turn.Adjustment{Model: "spare"}, nil},
		{"an effort, then a model", []turn.Adjustment{{Effort: "high"}, {Model: "spare"}}, turn.Adjustment{Model: "spare"}, nil},
		{"a model, then an effort", []turn.Adjustment{{Model: "spare"}, {Effort: "low"}, {Effort: "high"}}, turn.Adjustment{Model: "spare", Effort: "high"}, nil},
		{"one that fails", []turn.Adjustment{{Model: "spare"}}, turn.Adjustment{Model: "spare"}, hint.New("it is away", "wait")},
		{"none", nil, turn.Adjustment{}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			again := turntest.Say(turntest.Call("c2", "echo", `{}`))
			spare := turntest.New(again, turntest.Say(turntest.Text("done")))
			b := turntest.New(call("c1"), again, turntest.Say(turntest.Text("not adjusted")))
			b.Tools = []turntest.Tool{echo("echo"), {Descriptor: contract.Descriptor{Name: "change"}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
				for _, a := range tc.changes {
					if !b.Inbox.Adjust(a) {
						t.Error("refused")
					}
				}
				return contract.Text("changed"), nil
			}}}
			asked := 0
			b.More = []turn.Participant{adjuster(func(to turn.Adjustment) (*turn.Fallback, error) {
				if asked++; to != tc.want {
					t.Errorf("adjusted to %+v, want %+v", to, tc.want)
				}
				if tc.err != nil {
					return nil, tc.err
				}
				return &turn.Fallback{Model: spare, Row: spare.Row, Request: llm.Request{Model: "spare"}, Output: history.PolicyOf(spare.Row),
					Notices: []event.Notice{{Level: "info", Text: "spare continues"}}}, nil
			})}
			res := b.Run(t, t.Context(), "go")
			adjusted := len(tc.changes) > 0 && tc.err == nil
			last, said := "not adjusted", []string(nil)
			switch {
			case adjusted:
				last, said = "done", []string{"spare continues"}
			case tc.err != nil:
				said = []string{"the turn continues with its settings: it is away"}
			}
			if res.Status != event.TurnCompleted || res.LastMessage != last || !slices.Equal(notices(b), said) || asked != min(len(tc.changes), 1) {
				t.Errorf("%+v, notices %q, asked %d times", res, notices(b), asked)
			}
			if b.Inbox.Adjust(turn.Adjustment{Effort: "high"}) {
				t.Error("a turn that has ended was adjusted")
			}
		})
	}
}

// The answer that a provider has paused is completed by the same model.
func TestAdjustDoesNotInterruptAPausedAnswer(t *testing.T) {
	spare := turntest.New(turntest.Say(turntest.Text("done")))
	b := turntest.New(pauses(turntest.Say(turntest.Text("one moment"), hosted("h1"))), turntest.Say(turntest.Call("c1", "echo", `{}`)))
	b.Row.MetadataNamespace = "acme"
	b.Tools = []turntest.Tool{echo("echo")}
	b.OnStream = func(n int) {
		if n == 1 {
			b.Inbox.Adjust(turn.Adjustment{Model: "spare"})
		}
	}
	b.More = []turn.Participant{adjuster(func(turn.Adjustment) (*turn.Fallback, error) {
		return &turn.Fallback{Model: spare, Row: spare.Row, Request: llm.Request{Model: "spare"}, Output: history.PolicyOf(spare.Row)}, nil
	})}
	if res := b.Run(t, t.Context(), "go"); res.LastMessage != "done" || len(b.Requests()) != 2 {
		t.Errorf("%+v after %d requests", res, len(b.Requests()))
	}
}
