package usage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// reservations is what the meters of a tree share.
type reservations struct {
	sync.Mutex
	changed chan struct{} // closed and replaced when a reservation ends
}

// amount is what a request can use at most.
type amount struct {
	tokens int64
	usd    float64
}

func (a amount) add(b amount) amount { return amount{a.tokens + b.tokens, a.usd + b.usd} }

func (a amount) sub(b amount) amount { return amount{a.tokens - b.tokens, a.usd - b.usd} }

// unknown is reserved for a request whose answer has no known limit: nothing else is requested meanwhile, where there is a budget.
const unknown = math.MaxInt32

// most returns what a request can use. input is an estimate, and output the most that the model answers; 0: it is not known.
func most(row llm.ModelRow, input, output int64) amount {
	if output <= 0 {
		output = unknown
	}
	a := amount{tokens: input + output}
	if usd, ok := row.Prices.Cost(llm.Usage{Input: &input, Output: &output}); ok {
		a.usd = usd
	}
	return a
}

// Reserve reserves what a request can use, here and at each meter above. Where a budget has no room for it, it waits for the requests that are
// being answered. If there are none and the budget is not reached, the request is admitted: a budget is exceeded by one answer at most.
// beyond admits it although the budget of m itself is reached. The caller calls release when the usage has been reported.
//
// The error is a [*BudgetError], or the cause of the end of ctx.
func (m *Meter) Reserve(ctx context.Context, row llm.ModelRow, input, output int64, beyond bool) (release func(), err error) {
	need := most(row, input, output)
	for {
		m.shared.Lock()
		if err := m.allowFrom(beyond); err != nil {
			m.shared.Unlock()
			return nil, err
		}
		if m.hasRoom(need, beyond) {
			break
		}
		changed := m.shared.changed
		m.shared.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	m.hold(need, 1)
	m.shared.Unlock()
	return sync.OnceFunc(func() {
		m.shared.Lock()
		defer m.shared.Unlock()
		m.hold(amount{}.sub(need), -1)
		close(m.shared.changed)
		m.shared.changed = make(chan struct{})
	}), nil
}

func (m *Meter) hold(a amount, n int) {
	for at := m; at != nil; at = at.above {
		at.held, at.open = at.held.add(a), at.open+n
	}
}

// hasRoom reports whether no budget would be exceeded if all open requests and this one used what they can, or none is open.
func (m *Meter) hasRoom(need amount, beyond bool) bool {
	for at := m; at != nil; at = at.above {
		if at.open == 0 || beyond && at == m {
			continue
		}
		used := at.used()
		if b := at.budget.Tokens; b > 0 && used.Total+at.held.tokens+need.tokens > b {
			return false
		}
		if b := at.budget.USD; b > 0 && used.Cost.USD+at.held.usd+need.usd > b {
			return false
		}
	}
	return true
}

// used returns what the budget of a meter counts.
func (m *Meter) used() event.Tokens {
	_, total := m.Sum()
	return total.Add(m.Below())
}

// allowFrom is [Meter.Allow], without the budget of m itself if beyond is set.
func (m *Meter) allowFrom(beyond bool) error {
	if !beyond {
		return m.Allow()
	}
	for at := m.above; at != nil; at = at.above {
		if err := at.allow(false); err != nil {
			return err
		}
	}
	return nil
}

// HandsBack reports whether an error is about the budget of m itself, the first time that it is: then one more request is made in which the
// model says what it has got.
func (m *Meter) HandsBack(e *BudgetError) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.level != m || e.what != m.whose || m.mu.handedBack {
		return false
	}
	m.mu.handedBack = true
	return true
}

// TakeNotes returns what the model has not been told about the budgets that bound it: that half of one, four fifths, or nearly all is used.
func (m *Meter) TakeNotes() (out []string) {
	for at := m; at != nil; at = at.above {
		used, text, share := at.used(), "", 0.0
		if b := at.budget.Tokens; b > 0 {
			share, text = float64(used.Total)/float64(b), fmt.Sprintf("%d of %d tokens", used.Total, b)
		}
		if b := at.budget.USD; b > 0 && used.Cost.USD/b > share {
			share, text = used.Cost.USD/b, fmt.Sprintf("%s of $%g", used.Cost, b)
		}
		steps := []int{50, 80, 95}
		i := slices.IndexFunc(steps, func(s int) bool { return share*100 < float64(s) })
		if i < 0 {
			i = len(steps)
		}
		m.mu.Lock()
		fresh := i > m.mu.told[at]
		if fresh {
			if m.mu.told == nil {
				m.mu.told = map[*Meter]int{}
			}
			m.mu.told[at] = i
		}
		m.mu.Unlock()
		if fresh {
			out = append(out, fmt.Sprintf("<budget>\n%s has used %s, which is more than %d %% of the budget. When it is used up, no more requests are made: finish what matters most, "+
				"and say what is left.\n</budget>", at.whose, text, steps[i-1]))
		}
	}
	return out
}
