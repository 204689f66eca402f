package protocol

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Tokens are the figures of a vendor's usage object. Nil means unknown.
type Tokens struct {
	Input, Output, Total             *int64 // inclusive
	CacheRead, CacheWrite, Reasoning *int64
}

// Usage converts a vendor's figures to the canonical form and keeps the original object. If the vendor gives no total, it is the
// sum of the known figures. Negative figures, which some proxies send, are unknown.
func (t Tokens) Usage(raw json.RawMessage) llm.Usage {
	u := llm.Usage{
		Input: figure(t.Input), Output: figure(t.Output), Total: figure(t.Total),
		CacheRead: figure(t.CacheRead), CacheWrite: figure(t.CacheWrite), Reasoning: figure(t.Reasoning),
	}
	if len(raw) > 0 {
		u.Raw = append([]byte(nil), raw...)
	}
	if u.Total == nil && (u.Input != nil || u.Output != nil) {
		u.Total = Sum(u.Input, u.Output)
	}
	return u
}

func figure(n *int64) *int64 {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// Sum adds the known figures. It returns nil if there are none.
func Sum(figures ...*int64) *int64 {
	var sum int64
	known := false
	for _, f := range figures {
		if f != nil {
			sum += *f
			known = true
		}
	}
	if !known {
		return nil
	}
	return &sum
}
