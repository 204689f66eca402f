package protocol_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
)

func TestCallIDs(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, id := range []string{"", "a b", "ü", "a\xff", long, "call_1", "toolu_01-A"} {
		var c protocol.CallIDs
		got := c.Call(id)
		if got == "" || len(got) > 64 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			t.Errorf("%q becomes %q", id, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.SampledFrom([]string{"a", "a.", "a:", "a_", "", "a#2", "a_2", long, long + "y"})).Draw(t, "ids")
		var c protocol.CallIDs
		seen := map[string]bool{}
		for i, id := range ids {
			wire := c.Call(id)
			if seen[wire] {
				t.Fatalf("call %d of %q has the id %q of another one", i, ids, wire)
			}
			seen[wire] = true
			if back, ok := c.Result(id); !ok || back != wire {
				t.Fatalf("the result of call %d goes to %q", i, back)
			}
		}
	})
}

// An id that one answer uses twice has two results.
func TestResultsOfCallsWithOneID(t *testing.T) {
	var c protocol.CallIDs
	first, second := c.Call("a"), c.Call("a")
	for _, want := range []string{first, second, ""} {
		if got, ok := c.Result("a"); got != want || ok != (want != "") {
			t.Errorf("the result goes to %q, want %q", got, want)
		}
	}
}
