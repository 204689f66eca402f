package protocol

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Tokens are the figures of a vendor's usage object. Nil is unknown.
type Tokens struct {
	Input, Output, Total             *int64 // inclusive
	CacheRead, CacheWrite, Reasoning *int64
}

// Usage puts a vendor's figures into the canonical form and keeps the object they came from. Without a total of the
// vendor's own it is the sum of what is known. Figures below zero, which some proxies send, are unknown.
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

// Sum adds what is known; nil when nothing is.
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
