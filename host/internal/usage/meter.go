// Package usage counts the tokens and the cost of a thread and of its turns, and bounds them by a budget.
//
// It owns: the sums, and when a budget is reached. It must not know: how requests are made, how reports are stored.
//
// Start with [Meter].
package usage

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Publisher publishes the events of a turn, in order.
type Publisher interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
}

// Meter counts the usage of a thread and of its running turn: the turn's own requests, and those that plugins make in its calls,
// which may be concurrent. It belongs to the thread. It is safe for concurrent use.
type Meter struct {
	budget Budget
	whose  string // whose budget it is: "the thread"
	prefix string // of its settings: "budget."
	above  *Meter // nil: none
	shared *reservations
	mu     struct {
		sync.Mutex
		turn, total event.Tokens
		below       event.Tokens // used by the threads that work for this one
		// The warnings are published once.
		blindTokens, blindMoney bool
		handedBack              bool
		told                    map[*Meter]int // percentages of budgets that the model was told, here and above
	}
	held amount // by requests that are being answered, here and below; guarded by shared
	open int    // how many they are
}

// NewMeter returns a meter that continues from the thread's earlier usage.
func NewMeter(total event.Tokens, budget Budget) *Meter {
	m := &Meter{budget: budget, whose: "the thread", prefix: "budget.", shared: &reservations{changed: make(chan struct{})}}
	m.mu.total = total
	return m
}

// Begin starts to count a turn.
func (m *Meter) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.turn = event.Tokens{}
}

// Reset sets the thread's usage back to an earlier sum.
func (m *Meter) Reset(total event.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.turn, m.mu.total = event.Tokens{}, total
}

// Sum returns the usage of the turn and of the thread.
func (m *Meter) Sum() (turn, total event.Tokens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.turn, m.mu.total
}

// Report counts the usage of an answer and publishes it with the sums. It counts even if the log does not accept the event.
// Concurrent reports may be in either order; sums only grow, so the largest one is the latest.
func (m *Meter) Report(ctx context.Context, log Publisher, turn event.TurnID, r event.UsageReported) error {
	used := TokensOf(r.Usage)
	used.Cost = event.CostOf(r.CostUSD)
	m.mu.Lock()
	m.mu.turn, m.mu.total = m.mu.turn.Add(used), m.mu.total.Add(used)
	r.Turn, r.Total = m.mu.turn, m.mu.total
	bodies := []event.Body{r}
	if m.budget.tokens() && used.Total == 0 && !m.mu.blindTokens {
		m.mu.blindTokens = true
		bodies = append(bodies, budgetWarning(r, "use", "tokens", "Set a budget in US dollars if the model has prices there."))
	}
	if m.budget.money() && used.Cost.Unknown > 0 && !m.mu.blindMoney {
		m.mu.blindMoney = true
		bodies = append(bodies, budgetWarning(r, "cost", "US dollars", "Give the model's prices in the provider's block, or set a budget in tokens."))
	}
	m.mu.Unlock()
	m.above.AddBelow(used)
	_, err := log.Publish(ctx, turn, bodies...)
	return err
}

// Lost counts an answer that began and ended without reporting its usage.
func (m *Meter) Lost() {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := event.Tokens{Cost: event.CostOf(nil)}
	m.mu.turn, m.mu.total = m.mu.turn.Add(lost), m.mu.total.Add(lost)
}

// Under makes m the meter of a thread that works for another one, whose budget bounds both. It is called before m is used.
func (m *Meter) Under(above *Meter) *Meter {
	m.above = above
	if above != nil {
		m.shared = above.shared
	}
	return m
}

// Named sets whose budget it is, for people, and how its settings begin. It is called before m is used.
func (m *Meter) Named(whose, prefix string) *Meter {
	m.whose, m.prefix = whose, prefix
	return m
}

// AddBelow counts what threads that work for this one have used, here and further up. It does nothing without a meter.
func (m *Meter) AddBelow(used event.Tokens) {
	for ; m != nil; m = m.above {
		m.mu.Lock()
		m.mu.below = m.mu.below.Add(used)
		m.mu.Unlock()
	}
}

// Below returns what threads that work for this one have used.
func (m *Meter) Below() event.Tokens {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.below
}

// Of reports the usage of one answer: tokens, and their cost at the model's prices.
func Of(provider string, row llm.ModelRow, response string, u llm.Usage) event.UsageReported {
	r := event.UsageReported{ResponseID: response, Provider: provider, ModelName: row.ID, Usage: u, ContextWindow: history.WindowOf(row, 0).Usable()}
	if usd, ok := row.Prices.Cost(u); ok {
		r.CostUSD = &usd
	}
	return r
}

// TokensOf returns the reported usage of an answer. Missing values are 0.
func TokensOf(u llm.Usage) event.Tokens {
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
