package usage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

// discard is a log of reports.
type discard struct{}

func (discard) Publish(context.Context, event.TurnID, ...event.Body) (uint64, error) { return 0, nil }

// Agents that make requests concurrently exceed none of the budgets above them by more than one answer, and what is settled at each level is
// what was reported there and below.
func TestConcurrentAgentsStayWithinBudgets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const agents, limit = 32, 100 // most tokens of an answer
		bound := rapid.Int64Range(1, 4000).Draw(rt, "bound")
		group := rapid.Int64Range(0, 4000).Draw(rt, "bound of the group")
		own := rapid.SliceOfN(rapid.Int64Range(0, 400), agents, agents).Draw(rt, "own bounds")
		answers := rapid.SliceOfN(rapid.Int64Range(1, limit), agents, agents).Draw(rt, "answers")
		known := rapid.Bool().Draw(rt, "the limit of answers is known")
		synctest.Test(t, func(t *testing.T) {
			root := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: bound})
			all := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: group}).Under(root)
			var work sync.WaitGroup
			var mu sync.Mutex
			var reported, largest int64
			for i := range agents {
				m := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: own[i]}).Under(all)
				work.Go(func() {
					var mine int64
					for range 10 {
						var output int64
						if known {
							output = limit
						}
						release, err := m.Reserve(t.Context(), llm.ModelRow{}, 0, output, false)
						if err != nil {
							if _, ok := errors.AsType[*usage.BudgetError](err); !ok {
								t.Error(err)
							}
							break
						}
						time.Sleep(time.Duration(answers[i]) * time.Millisecond) // in the bubble: the answers overlap
						in, out := answers[i], int64(0)
						if err := m.Report(t.Context(), discard{}, "t", event.UsageReported{Usage: llm.Usage{Input: &in, Output: &out}}); err != nil {
							t.Error(err)
						}
						mine += in
						mu.Lock()
						reported, largest = reported+in, max(largest, in)
						mu.Unlock()
						release()
					}
					if _, total := m.Sum(); total.Total != mine || own[i] > 0 && mine >= own[i]+limit {
						t.Errorf("agent %d used %d, its meter says %d, and its budget is %d", i, mine, total.Total, own[i])
					}
				})
			}
			work.Wait()
			for what, m := range map[string]*usage.Meter{"root": root, "group": all} {
				if got := m.Below().Total; got != reported {
					t.Errorf("the %s has settled %d of %d", what, got, reported)
				}
			}
			if reported >= bound+largest || group > 0 && reported >= group+largest {
				t.Errorf("used %d with budgets of %d and %d, and answers of up to %d", reported, bound, group, largest)
			}
		})
	})
}

// A request waits for one that is being answered if there may be no room for both, and a wait ends with its context.
func TestReservationsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: 100})
		release, err := m.Reserve(t.Context(), llm.ModelRow{}, 10, 50, false)
		if err != nil {
			t.Fatal(err)
		}
		small, err := m.Reserve(t.Context(), llm.ModelRow{}, 10, 20, false)
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		if _, err := m.Reserve(ctx, llm.ModelRow{}, 10, 20, false); !errors.Is(err, cause) {
			t.Errorf("a request without room: %v", err)
		}
		admitted := make(chan error)
		go func() { // ends with the test's receive
			again, err := m.Reserve(t.Context(), llm.ModelRow{}, 10, 20, false)
			if err == nil {
				again()
			}
			admitted <- err
		}()
		synctest.Wait()
		release()
		release() // the second time has no effect
		if err := <-admitted; err != nil {
			t.Error(err)
		}
		small()
		in, out := int64(100), int64(0)
		if err := m.Report(t.Context(), discard{}, "t", event.UsageReported{Usage: llm.Usage{Input: &in, Output: &out}}); err != nil {
			t.Fatal(err)
		}
		_, err = m.Reserve(t.Context(), llm.ModelRow{}, 1, 1, false)
		e, ok := errors.AsType[*usage.BudgetError](err)
		if !ok || !m.HandsBack(e) || m.HandsBack(e) {
			t.Errorf("%v: the last request is made once", err)
		}
		if last, err := m.Reserve(t.Context(), llm.ModelRow{}, 1, 1, true); err != nil {
			t.Error(err)
		} else {
			last()
		}
		above := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: 5}).Under(m)
		if _, err := above.Reserve(t.Context(), llm.ModelRow{}, 1, 1, true); err == nil {
			t.Error("the budget of another level was exceeded")
		} else if e, ok := errors.AsType[*usage.BudgetError](err); !ok || above.HandsBack(e) {
			t.Errorf("%v is taken for the agent's own budget", err)
		}
	})
}

// A model is told once at each step how much of the budgets that bound it is used.
func TestBudgetNotes(t *testing.T) {
	t.Parallel()
	root := usage.NewMeter(event.Tokens{}, usage.Budget{USD: 1})
	m := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: 100}).Under(root).Named("the agent /root/a", "agent.a.budget.")
	for _, tc := range []struct {
		tokens int64
		usd    float64
		want   []string
	}{
		{49, 0, nil}, {1, 0, []string{"the agent /root/a has used 50 of 100 tokens, which is more than 50 %"}}, {10, 0.1, nil},
		{36, 0.75, []string{"the agent /root/a has used 96 of 100 tokens, which is more than 95 %", "the thread has used $0.8500 of $1, which is more than 80 %"}},
		{100, 0.01, nil},
	} {
		zero := int64(0)
		if err := m.Report(t.Context(), discard{}, "t", event.UsageReported{Usage: llm.Usage{Input: &tc.tokens, Output: &zero}, CostUSD: &tc.usd}); err != nil {
			t.Fatal(err)
		}
		got := m.TakeNotes()
		ok := len(got) == len(tc.want)
		for i := range tc.want {
			ok = ok && strings.HasPrefix(got[i], "<budget>\n"+tc.want[i])
		}
		if !ok {
			t.Errorf("after %d tokens more: %s, want %q", tc.tokens, fmt.Sprintf("%q", got), tc.want)
		}
	}
}
