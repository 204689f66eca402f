package usage

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Budget bounds what a thread and each of its turns may use: tokens of all requests, in and out, cached ones too, and US
// dollars. What is reached is noticed before the next request, so the last one may go beyond it. 0: no bound.
type Budget struct {
	Tokens, TurnTokens int64
	USD, TurnUSD       float64
}

func (b Budget) tokens() bool { return b.Tokens > 0 || b.TurnTokens > 0 }
func (b Budget) money() bool  { return b.USD > 0 || b.TurnUSD > 0 }

// BudgetError says which bound is reached; no further request is made.
type BudgetError struct {
	what    string // "the thread" or "the turn"
	setting string
	used    string
	bound   string
	more    string // a value that would let it go on
}

// Error implements error.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget is reached: %s has used %s, and %s is %s", e.what, e.used, e.setting, e.bound)
}

// NextStep is what the user can do.
func (e *BudgetError) NextStep() string {
	raise := fmt.Sprintf("raise it, for one run with -c %s=%s", e.setting, e.more)
	if e.what == "the turn" {
		return "say how to continue, since each turn has its own budget; or " + raise
	}
	return raise + ", or begin a new thread"
}

// Allow tells whether there may be one more request; else it returns a *[BudgetError].
func (m *Meter) Allow() error {
	turn, total := m.Sum()
	for _, b := range []struct {
		what string
		used event.Tokens
		name string
		max  int64
		usd  float64
	}{
		{"the thread", total, "budget.", m.budget.Tokens, m.budget.USD},
		{"the turn", turn, "budget.turn_", m.budget.TurnTokens, m.budget.TurnUSD},
	} {
		if b.max > 0 && b.used.Total >= b.max {
			return &BudgetError{
				what: b.what, setting: b.name + "tokens", used: fmt.Sprintf("%d tokens", b.used.Total), bound: fmt.Sprint(b.max),
				more: fmt.Sprint(b.used.Total + b.max),
			}
		}
		if c := b.used.Cost; b.usd > 0 && c.USD >= b.usd {
			return &BudgetError{
				what: b.what, setting: b.name + "usd", used: c.String(), bound: fmt.Sprint(b.usd), more: fmt.Sprintf("%.2f", c.USD+b.usd),
			}
		}
	}
	return nil
}

// uncounted warns that a budget does not see everything.
func uncounted(r event.UsageReported, what, unit, next string) event.Notice {
	return event.Notice{
		Level: "warning", Next: next,
		Text: fmt.Sprintf("what answers of %q (provider %q) %s is not known; the budget in %s counts only what is", r.ModelName, r.Provider, what, unit),
	}
}
