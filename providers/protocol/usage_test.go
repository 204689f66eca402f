package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	n := func(i int64) *int64 { return &i }
	for _, tc := range []struct {
		name   string
		tokens protocol.Tokens
		want   string
	}{
		{"nothing known", protocol.Tokens{}, "F(stop)"},
		{"the vendor's total", protocol.Tokens{Input: n(5), Output: n(2), Total: n(9)}, "F(stop in=5 out=2 total=9)"},
		{"a sum", protocol.Tokens{Input: n(5), Output: n(2), CacheRead: n(1), Reasoning: n(0)}, "F(stop in=5 read=1 out=2 reasoning=0 total=7)"},
		{"a sum of what is known", protocol.Tokens{Output: n(2), CacheWrite: n(3)}, "F(stop write=3 out=2 total=2)"},
		{"below zero", protocol.Tokens{Input: n(-1), Output: n(2), Total: n(-5)}, "F(stop out=2 total=2)"},
	} {
		u := tc.tokens.Usage(nil)
		if got := render([]llm.Event{llm.StepFinish{Usage: u}, llm.Finish{Reason: llm.FinishStop, Usage: u}}); got != "SF(unknown) "+tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	raw := json.RawMessage(`{"a":1}`)
	u := protocol.Tokens{}.Usage(raw)
	raw[0] = '#'
	if string(u.Raw) != `{"a":1}` {
		t.Errorf("the vendor's object is %s", u.Raw)
	}
	if protocol.Sum(nil, nil) != nil {
		t.Error("the sum of nothing is known")
	}
}
