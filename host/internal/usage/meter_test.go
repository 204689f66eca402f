package usage_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// log keeps the events that are published.
type log struct {
	mu     sync.Mutex
	bodies []event.Body
}

func (l *log) Publish(_ context.Context, _ event.TurnID, bodies ...event.Body) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies = append(l.bodies, bodies...)
	return uint64(len(l.bodies)), nil
}

// Requests that are made side by side are all counted; the next turn begins at nothing and the thread goes on.
func TestMeter(t *testing.T) {
	m, l := usage.NewMeter(event.Tokens{Input: 1000, Total: 1000}, usage.Budget{}), &log{}
	var work sync.WaitGroup
	usd, in, out := 0.01, int64(10), int64(1)
	for range 50 {
		work.Go(func() {
			if err := m.Report(t.Context(), l, "turn-1", event.UsageReported{Call: "c1", Usage: llm.Usage{Input: &in, Output: &out}, CostUSD: &usd}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	want := event.Tokens{Input: 500, Output: 50, Total: 550, Cost: event.Cost{USD: 0.5}}
	if used, total := m.Sum(); used != want || total != want.Add(event.Tokens{Input: 1000, Total: 1000}) {
		t.Errorf("used %+v of %+v", used, total)
	}
	var largest event.Tokens
	for _, e := range l.bodies {
		r := e.(event.UsageReported)
		if r.Call != "c1" || r.Turn.Total+1000 != r.Total.Total {
			t.Errorf("report %+v", r)
		}
		largest = largest.Max(r.Total)
	}
	if _, total := m.Sum(); largest != total {
		t.Errorf("the largest sum in the log is %+v, want %+v", largest, total)
	}
	m.Begin()
	if used, total := m.Sum(); used != (event.Tokens{}) || total.Total != 1550 {
		t.Errorf("in the next turn: used %+v of %+v", used, total)
	}
}

func TestBudgetErrorIsTyped(t *testing.T) {
	m := usage.NewMeter(event.Tokens{Total: 1}, usage.Budget{Tokens: 1})
	e, ok := errors.AsType[*usage.BudgetError](m.Allow())
	if !ok || e.NextStep() == "" {
		t.Errorf("%v", m.Allow())
	}
}

// A thread's budget bounds the threads that work for it, and theirs; each counts its own.
func TestMetersInAChain(t *testing.T) {
	root := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: 100})
	child := usage.NewMeter(event.Tokens{}, usage.Budget{}).Under(root)
	grandchild := usage.NewMeter(event.Tokens{}, usage.Budget{Tokens: 70}).Under(child)
	use := func(m *usage.Meter, n int64) {
		t.Helper()
		if err := m.Report(t.Context(), &log{}, "turn", event.UsageReported{Usage: llm.Usage{Input: &n}}); err != nil {
			t.Fatal(err)
		}
	}
	use(root, 10)
	use(child, 20)
	use(grandchild, 69)
	for _, m := range []*usage.Meter{root, child, grandchild} {
		if err := m.Allow(); err != nil {
			t.Error(err)
		}
	}
	use(child, 1)
	for _, m := range []*usage.Meter{root, child, grandchild} {
		if m.Allow() == nil {
			t.Error("the budget of the root does not bound all")
		}
	}
	if _, own := root.Sum(); own.Total != 10 || root.Below().Total != 90 || child.Below().Total != 69 {
		t.Errorf("the root counts %d of its own and %+v, the child %+v", own.Total, root.Below(), child.Below())
	}
}
