package turn_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// tokens is what an answer used.
func tokens(in, out int64) llm.Usage { return llm.Usage{Input: &in, Output: &out} }

// prices of a model whose answers in these tests, 100 tokens in and 10 out, cost 0.13 dollars.
func prices() llm.Prices {
	in, out := 1000.0, 3000.0
	return llm.Prices{Input: &in, Output: &out}
}

// A budget ends the turn between two requests: what runs is finished, what it gave is recorded.
func TestBudget(t *testing.T) {
	used := event.Tokens{Total: 1000, Cost: event.Cost{USD: 1}}
	for _, tc := range []struct {
		name     string
		before   event.Tokens // of the thread
		budget   usage.Budget
		requests int
		says     string
		next     string
	}{
		{"none", used, usage.Budget{}, 3, "", ""},
		{"far away", used, usage.Budget{Tokens: 10_000, USD: 10, TurnTokens: 10_000, TurnUSD: 10}, 3, "", ""},
		{"tokens of the turn", used, usage.Budget{TurnTokens: 220}, 2, "the turn has used 220 tokens, and budget.turn_tokens is 220", "say how to continue"},
		{"tokens of the thread", used, usage.Budget{Tokens: 1101}, 1, "the thread has used 1110 tokens, and budget.tokens is 1101", "-c budget.tokens=2211"},
		{"money of the turn", used, usage.Budget{TurnUSD: 0.2}, 2, "the turn has used $0.2600, and budget.turn_usd is 0.2", "-c budget.turn_usd=0.46"},
		{"money of the thread", used, usage.Budget{USD: 1.1}, 1, "the thread has used $1.13, and budget.usd is 1.1", "begin a new thread"},
		{"used up before", used, usage.Budget{Tokens: 1000}, 0, "the thread has used 1000 tokens", "budget.tokens=2000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Say(turntest.Call("c2", "echo", `{}`)), turntest.Say(turntest.Text("done")))
			b.Tools = []turntest.Tool{echo("echo")}
			b.Row.Prices = prices()
			b.Meter = usage.NewMeter(tc.before, tc.budget)
			res := b.Run(t, t.Context(), "go")
			if n := len(b.Requests()); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
			if tc.says == "" {
				if res.Status != event.TurnCompleted {
					t.Errorf("result %+v", res.Problem)
				}
				return
			}
			p := res.Problem
			if res.Status != event.TurnFailed || p.Code != "budget" || !strings.Contains(p.Message, tc.says) || !strings.Contains(p.Next, tc.next) {
				t.Errorf("result %+v, want a problem with %q and %q", p, tc.says, tc.next)
			}
			if open := b.History.Unanswered(); len(open) > 0 {
				t.Errorf("%d calls have no output", len(open))
			}
			if got := turntest.Render(b.History.Messages()); !strings.HasPrefix(got, "user: go") {
				t.Errorf("what the user said is lost:\n%s", got)
			}
		})
	}
}

// A stream that breaks is asked again only within the budget.
func TestBudgetHoldsForRetries(t *testing.T) {
	b := turntest.New(turntest.Cut(turntest.Text("partial")))
	b.Meter = usage.NewMeter(event.Tokens{}, usage.Budget{TurnTokens: 5})
	b.OnStream = func(int) {
		if err := b.Meter.Report(t.Context(), b, "turn-1", event.UsageReported{Call: "c1", Usage: tokens(5, 1)}); err != nil {
			t.Error(err)
		}
	}
	if res := b.Run(t, t.Context(), "go"); res.Problem == nil || res.Problem.Code != "budget" || len(b.Requests()) != 1 {
		t.Errorf("result %+v after %d requests", res.Problem, len(b.Requests()))
	}
}

// What is not known is counted as unknown: answers without a price, answers that broke off. A budget of money says once
// that it does not see them.
func TestUnknownCost(t *testing.T) {
	for name, budget := range map[string]usage.Budget{"with a budget": {USD: 100}, "without": {Tokens: 1e6}} {
		t.Run(name, func(t *testing.T) {
			b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Cut(), turntest.Say(turntest.Text("done")))
			b.Tools = []turntest.Tool{echo("echo")}
			b.Meter = usage.NewMeter(event.Tokens{Cost: event.Cost{USD: 1}}, budget)
			if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnCompleted {
				t.Fatalf("result %+v", res.Problem)
			}
			used, total := b.Meter.Sum()
			if used.Cost != (event.Cost{Unknown: 3}) || total.Cost != (event.Cost{USD: 1, Unknown: 3}) {
				t.Errorf("cost %+v of %+v", used.Cost, total.Cost)
			}
			warnings := 0
			for _, e := range b.Events() {
				switch body := e.Body.(type) {
				case event.Notice:
					warnings++
					if !strings.Contains(body.Text, `"m" (provider "fake")`) || body.Next == "" {
						t.Errorf("notice %+v", body)
					}
				case event.UsageReported:
					if body.CostUSD != nil || body.ModelName != "m" || body.Provider != "fake" {
						t.Errorf("report %+v", body)
					}
				}
			}
			if want := map[bool]int{true: 1}[budget.USD > 0]; warnings != want {
				t.Errorf("%d warnings, want %d", warnings, want)
			}
		})
	}
}

// What the vendor says it charged counts, not the list.
func TestCostOfAnAnswer(t *testing.T) {
	charged := 0.5
	a := turntest.Say(turntest.Text("done"))
	for i, ev := range a.Events {
		if f, ok := ev.(llm.StepFinish); ok {
			f.Usage.CostUSD = &charged
			a.Events[i] = f
		}
	}
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), a)
	b.Tools = []turntest.Tool{echo("echo")}
	b.Row.Prices = prices()
	b.Run(t, t.Context(), "go")
	var costs []float64
	for _, e := range b.Events() {
		if r, ok := e.Body.(event.UsageReported); ok && r.CostUSD != nil {
			costs = append(costs, *r.CostUSD)
		}
	}
	if len(costs) != 2 || costs[0] != 0.13 || costs[1] != 0.5 {
		t.Errorf("costs %v, want 0.13 and 0.5", costs)
	}
	if used, _ := b.Meter.Sum(); used.Cost != (event.Cost{USD: 0.63}) {
		t.Errorf("sum %+v", used.Cost)
	}
}

// A budget of tokens, too, says once that a provider does not count them.
func TestUnknownUsage(t *testing.T) {
	silent := func(parts ...llm.Part) turntest.Answer {
		a := turntest.Say(parts...)
		for i, ev := range a.Events {
			if f, ok := ev.(llm.StepFinish); ok {
				f.Usage = llm.Usage{}
				a.Events[i] = f
			}
		}
		return a
	}
	for name, budget := range map[string]usage.Budget{"tokens": {TurnTokens: 1}, "none": {}} {
		b := turntest.New(silent(turntest.Call("c1", "echo", `{}`)), silent(turntest.Text("done")))
		b.Tools = []turntest.Tool{echo("echo")}
		b.Meter = usage.NewMeter(event.Tokens{}, budget)
		if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnCompleted {
			t.Fatalf("%s: result %+v", name, res.Problem)
		}
		n := notices(b)
		if want := map[bool]int{true: 1}[budget.TurnTokens > 0]; len(n) != want || want == 1 && !strings.Contains(n[0], "the budget in tokens counts only what is") {
			t.Errorf("%s: notices %q", name, n)
		}
	}
}

// An agent whose own budget is used up is asked once more, without tools, for what it has got.
func TestHandBack(t *testing.T) {
	for name, tc := range map[string]struct {
		above    usage.Budget
		requests int
		status   event.TurnStatus
	}{
		"own":      {usage.Budget{}, 2, event.TurnCompleted},
		"of above": {usage.Budget{Tokens: 50}, 1, event.TurnFailed},
	} {
		t.Run(name, func(t *testing.T) {
			b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Say(turntest.Text("so far")))
			b.Tools = []turntest.Tool{echo("echo")}
			b.Limits.HandBack = true
			b.Meter = usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: 100}).Under(usage.NewMeter(event.Tokens{}, tc.above))
			res := b.Run(t, t.Context(), "go")
			requests := b.Sent()
			if len(requests) != tc.requests || res.Status != tc.status {
				t.Fatalf("%d requests, %+v", len(requests), res)
			}
			if tc.status == event.TurnFailed {
				return
			}
			last := requests[1]
			if said := last.Messages[len(last.Messages)-1].Text(); res.LastMessage != "so far" || len(last.Tools) > 0 || !strings.Contains(said, "Your budget is used up") {
				t.Errorf("%q after a request with %d tools and %q", res.LastMessage, len(last.Tools), said)
			}
		})
	}
}
