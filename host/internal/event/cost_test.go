package event

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestCost(t *testing.T) {
	usd := func(f float64) *float64 { return &f }
	sum := func(costs ...*float64) (c Cost) {
		for _, u := range costs {
			c = c.Add(CostOf(u))
		}
		return c
	}
	for _, tc := range []struct {
		name string
		cost Cost
		text string
		json string
	}{
		{"nothing", Cost{}, "", `{"usd":0}`},
		{"free is not unknown", sum(usd(0)), "", `{"usd":0}`},
		{"known", sum(usd(0.0132)), "$0.0132", `{"usd":0.0132}`},
		{"a sum prints as it is", sum(usd(0.1), usd(0.2)), "$0.3000", `{"usd":0.3}`},
		{"of a dollar on", sum(usd(12.345)), "$12.35", `{"usd":12.345}`},
		{"tiny is not nothing", sum(usd(0.00001)), "$0.0001", `{"usd":0.00001}`},
		{"unknown", sum(nil, nil), "", `{"usd":0,"unknown":2}`},
		{"in part", sum(usd(0.5), nil), "at least $0.5000", `{"usd":0.5,"unknown":1}`},
		{"what is no price", sum(usd(math.NaN()), usd(math.Inf(1)), usd(-1)), "", `{"usd":0,"unknown":3}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := json.Marshal(tc.cost)
			if err != nil || tc.cost.String() != tc.text || string(b) != tc.json {
				t.Errorf("%q, %s, %v; want %q, %s", tc.cost, b, err, tc.text, tc.json)
			}
		})
	}
	if b, err := json.Marshal(Tokens{}); err != nil || string(b) != `{"input":0,"cacheRead":0,"cacheWrite":0,"output":0,"reasoning":0,"total":0}` {
		t.Errorf("a count without a cost is %s, %v", b, err)
	}
}

// A sum is the same in whatever order its parts come, and the larger of two sums is never smaller than either.
func TestCostsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Float64Range(0, 100), 0, 30).Draw(t, "usd")
		var up, down Cost
		for i := range parts {
			up = up.Add(CostOf(&parts[i]))
			down = down.Add(CostOf(&parts[len(parts)-1-i]))
			if up.Max(down) != down.Max(up) || up.Max(down).USD < up.USD {
				t.Fatalf("max of %v and %v", up, down)
			}
		}
		if up != down {
			t.Fatalf("%v one way, %v the other", up, down)
		}
	})
}
