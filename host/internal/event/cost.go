package event

import (
	"fmt"
	"math"
)

// Cost is the cost of answers. Answers of unknown cost are counted instead of being treated as free.
type Cost struct {
	USD     float64 `json:"usd"`               // of the answers whose cost is known
	Unknown int64   `json:"unknown,omitempty"` // answers whose cost is not known
}

// CostOf returns the cost of one answer. It is unknown if usd is nil or not a valid amount.
func CostOf(usd *float64) Cost {
	if usd == nil || math.IsNaN(*usd) || math.IsInf(*usd, 0) || *usd < 0 {
		return Cost{Unknown: 1}
	}
	return Cost{USD: rounded(*usd)}
}

// rounded rounds to a billionth of a dollar, so that sums don't depend on the order of addition and print exactly.
func rounded(usd float64) float64 { return math.Round(usd*1e9) / 1e9 }

// Add returns the sum of two costs.
func (c Cost) Add(d Cost) Cost {
	return Cost{USD: rounded(c.USD + d.USD), Unknown: c.Unknown + d.Unknown}
}

// Max returns the maximum of each field.
func (c Cost) Max(d Cost) Cost {
	return Cost{USD: max(c.USD, d.USD), Unknown: max(c.Unknown, d.Unknown)}
}

// String returns the cost for people, or an empty string if no known cost was added.
func (c Cost) String() string {
	if c.USD == 0 {
		return ""
	}
	s := fmt.Sprintf("$%.2f", c.USD)
	if c.USD < 1 {
		s = fmt.Sprintf("$%.4f", max(c.USD, 0.0001))
	}
	if c.Unknown > 0 {
		s = "at least " + s
	}
	return s
}
