package usage

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Budget limits the usage of a thread and of each of its turns: tokens of all requests, both directions, including cached ones,
// and US dollars. It is checked before each request, so the last one may exceed it. 0: unlimited.
type Budget struct {
	Tokens, TurnTokens int64
	USD, TurnUSD       float64
}

func (b Budget) tokens() bool { return b.Tokens > 0 || b.TurnTokens > 0 }
func (b Budget) money() bool  { return b.USD > 0 || b.TurnUSD > 0 }

// BudgetError says which limit is reached. No further request is made.
type BudgetError struct {
	level   *Meter
	what    string // such as "the thread" or "the turn"
	setting string
	used    string
	bound   string
	more    string // a value that would allow more
}

// Error implements error.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("the budget is reached: %s has used %s, and %s is %s", e.what, e.used, e.setting, e.bound)
}

// NextStep implements [hint.Stepper].
func (e *BudgetError) NextStep() string {
	raise := fmt.Sprintf("raise it, for one run with -c %s=%s", e.setting, e.more)
	if e.what == "the turn" {
		return "say how to continue, since each turn has its own budget; or " + raise
	}
	return raise + ", or begin a new thread"
}

// Allow returns a *[BudgetError] if no further request is allowed.
func (m *Meter) Allow() error {
	for at := m; at != nil; at = at.above {
		if err := at.allow(at == m); err != nil {
			return err
		}
	}
	return nil
}

// allow checks the budget of one thread, to which counts what was used for it. The budget of a turn bounds only its own requests.
func (m *Meter) allow(own bool) error {
	turn, total := m.Sum()
	if !own {
		turn = event.Tokens{}
	}
	total = total.Add(m.Below())
	for _, b := range []struct {
		what string
		used event.Tokens
		name string
		max  int64
		usd  float64
	}{
		{m.whose, total, m.prefix, m.budget.Tokens, m.budget.USD},
		{"the turn", turn, "budget.turn_", m.budget.TurnTokens, m.budget.TurnUSD},
	} {
		if b.max > 0 && b.used.Total >= b.max {
			return &BudgetError{
				level: m, what: b.what, setting: b.name + "tokens", used: fmt.Sprintf("%d tokens", b.used.Total), bound: fmt.Sprint(b.max),
				more: fmt.Sprint(b.used.Total + b.max),
			}
		}
		if c := b.used.Cost; b.usd > 0 && c.USD >= b.usd {
			return &BudgetError{
				level: m, what: b.what, setting: b.name + "usd", used: c.String(), bound: fmt.Sprint(b.usd), more: fmt.Sprintf("%.2f", c.USD+b.usd),
			}
		}
	}
	return nil
}

// budgetWarning warns that a budget does not include everything.
func budgetWarning(r event.UsageReported, what, unit, next string) event.Notice {
	return event.Notice{
		Level: "warning", Next: next,
		Text: fmt.Sprintf("what answers of %q (provider %q) %s is not known; the budget in %s counts only what is", r.ModelName, r.Provider, what, unit),
	}
}
