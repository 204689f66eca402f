package rig

import (
	"encoding/json"
	"strings"
	"testing"
)

// Event is an event in the output of --events.
type Event struct {
	Seq    uint64          `json:"seq"`
	Thread string          `json:"thread"`
	Turn   string          `json:"turn"`
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"`
}

// Into decodes the body.
func (e Event) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(e.Body, v); err != nil {
		t.Fatalf("event %s: %v", e.Kind, err)
	}
}

// Events parses the output of --events. It ignores an incomplete last line, whose writer was killed.
func Events(t testing.TB, stdout string) []Event {
	t.Helper()
	var out []Event
	for line := range strings.Lines(stdout) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var e Event
		if err := json.Unmarshal(lightened([]byte(line)), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, e)
	}
	return out
}

// Gapless checks that the durable events are numbered consecutively from first, and returns the last number.
func Gapless(t testing.TB, events []Event, first uint64) uint64 {
	t.Helper()
	next := first
	for _, e := range events {
		if e.Seq == 0 {
			continue // transient
		}
		if e.Seq != next {
			t.Errorf("event %s has the number %d, want %d", e.Kind, e.Seq, next)
			next = e.Seq
		}
		next++
	}
	return next - 1
}
