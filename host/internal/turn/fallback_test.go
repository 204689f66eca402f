package turn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
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
