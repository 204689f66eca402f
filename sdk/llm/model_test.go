package llm

import (
	"math"
	"testing"
)

func TestCost(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	f := func(x float64) *float64 { return &x }
	plain := Prices{Input: f(3), Output: f(15), CacheRead: f(0.3)}
	tiered := Prices{Input: f(2.5), Output: f(15), CacheRead: f(0.25), Tiers: []PriceTier{
		{Above: 500_000, Input: f(10), Output: f(40)}, {Above: 272_000, Input: f(5), Output: f(22.5), CacheRead: f(0.5)},
	}}
	tests := []struct {
		name   string
		prices Prices
		usage  Usage
		want   float64 // below 0: unknown
	}{
		{"cached tokens at their own price", plain, Usage{Input: n(10_000), CacheRead: n(9_000), Output: n(500)}, 0.0132},
		{"writes cost as input where nothing else is said", plain, Usage{Input: n(1_000), CacheWrite: n(1_000), Output: n(0)}, 0.003},
		{"writes at their own price", Prices{Input: f(3), Output: f(15), CacheWrite: f(3.75)}, Usage{Input: n(1_000), CacheWrite: n(1_000), Output: n(0)}, 0.00375},
		{"reasoning costs as output", plain, Usage{Input: n(0), Output: n(1_000), Reasoning: n(400)}, 0.015},
		{"reasoning at its own price", Prices{Input: f(3), Output: f(15), Reasoning: f(5)}, Usage{Input: n(0), Output: n(1_000), Reasoning: n(400)}, 0.011},
		{"at the border of a tier", tiered, Usage{Input: n(272_000), Output: n(0)}, 0.68},
		{"above it", tiered, Usage{Input: n(272_001), CacheRead: n(1), Output: n(1_000)}, 1.3825005},
		{"the largest tier that fits", tiered, Usage{Input: n(1_000_000), Output: n(0)}, 10},
		{"what the vendor says wins", plain, Usage{CostUSD: f(0.5), Input: n(1), Output: n(1)}, 0.5},
		{"no price", Prices{}, Usage{Input: n(1), Output: n(1)}, -1},
		{"no output price", Prices{Input: f(1)}, Usage{Input: n(1), Output: n(1)}, -1},
		{"no count", plain, Usage{Output: n(1)}, -1},
		{"more cached than there is", plain, Usage{Input: n(10), CacheRead: n(1_000_000), Output: n(0)}, 0.000003},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.prices.Cost(tt.usage)
			if ok != (tt.want >= 0) || ok && math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("cost = %v, %v, want %v", got, ok, tt.want)
			}
		})
	}
}
