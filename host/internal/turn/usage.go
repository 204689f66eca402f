package turn

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Meter counts what a thread uses, and what of it the turn that runs: its own requests, and those that plugins make in
// its calls, which may be several at once. It is the thread's. Safe for concurrent use.
type Meter struct {
	mu struct {
		sync.Mutex
		turn, total event.Tokens
	}
}

// NewMeter goes on from what the thread had used before.
func NewMeter(total event.Tokens) *Meter {
	m := &Meter{}
	m.mu.total = total
	return m
}

// Begin begins to count a turn.
func (m *Meter) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.turn = event.Tokens{}
}

// Sum is what the turn and the whole thread have used so far.
func (m *Meter) Sum() (turn, total event.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.turn, m.mu.total
}

// Report counts an answer's usage, and tells the log with the sums so far. What was used counts also when the log does not
// take it. Of two reports at once the later one may stand first in the log: sums only grow, so the largest is the latest.
func (m *Meter) Report(ctx context.Context, log Log, turn event.TurnID, r event.UsageReported) error {
	used := tokens(r.Usage)
	m.mu.Lock()
	m.mu.turn, m.mu.total = m.mu.turn.Add(used), m.mu.total.Add(used)
	r.Turn, r.Total = m.mu.turn, m.mu.total
	m.mu.Unlock()
	_, err := log.Publish(ctx, turn, r)
	return err
}

// count adds what one answer used.
func (a *answer) count(ctx context.Context, u llm.Usage) error {
	return a.Meter.Report(ctx, a.Log, a.ID, event.UsageReported{
		ResponseID: a.response, Usage: u, ContextWindow: a.Row.ContextWindow, Active: tokens(u).Total,
	})
}

func tokens(u llm.Usage) event.Tokens {
	v := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	t := event.Tokens{
		Input: v(u.Input), CacheRead: v(u.CacheRead), CacheWrite: v(u.CacheWrite),
		Output: v(u.Output), Reasoning: v(u.Reasoning), Total: v(u.Total),
	}
	if t.Total == 0 {
		t.Total = t.Input + t.Output
	}
	return t
}
