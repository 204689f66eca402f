package event

import (
	"fmt"
	"math"
)

// Cost is what answers cost. What is not known is not 0: it is counted.
type Cost struct {
	USD     float64 `json:"usd"`               // of the answers whose cost is known
	Unknown int64   `json:"unknown,omitempty"` // answers whose cost is not known
}

// CostOf is the cost of one answer; nil: nobody knows it.
func CostOf(usd *float64) Cost {
	if usd == nil || math.IsNaN(*usd) || math.IsInf(*usd, 0) || *usd < 0 {
		return Cost{Unknown: 1}
	}
	return Cost{USD: rounded(*usd)}
}

// rounded rounds to a billionth of a dollar, so that a sum does not depend on the order of its parts and prints as it is.
func rounded(usd float64) float64 { return math.Round(usd*1e9) / 1e9 }

// Add sums two costs.
func (c Cost) Add(d Cost) Cost {
	return Cost{USD: rounded(c.USD + d.USD), Unknown: c.Unknown + d.Unknown}
}

// Max is the larger of two sums, each part by itself.
func (c Cost) Max(d Cost) Cost {
	return Cost{USD: max(c.USD, d.USD), Unknown: max(c.Unknown, d.Unknown)}
}

// String is the cost for people; empty where nothing is known of it.
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
