package e2e_test

import (
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// sums are the counts of tokens that a test looks at.
type sums struct{ Input, Output, Total int64 }

// What a plugin asks the model is paid by the thread: it is in the events, in the totals, and in what a resumed thread
// begins with.
func TestPluginsRequestsAreCounted(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
times = -1
when  = { user = "a question" }
usage = { input = 1000, output = 100 }
do    = [{ text = "hm" }]
[[step]]
usage = { input = 10, output = 1 }
do    = [{ call = "think", id = "c1" }]
[[step]]
times = -1
usage = { input = 10, output = 1 }
do    = [{ text = "done" }]
`)
	addOdd(t, r, "samples", "samples", "")
	turn := func(args ...string) (turn, thread sums, calls map[string]int) {
		t.Helper()
		calls = map[string]int{}
		for _, e := range rig.Events(t, r.OK(args...).Stdout) {
			switch e.Kind {
			case "usage.reported":
				var b struct{ Call string }
				e.Into(t, &b)
				calls[b.Call]++
			case "turn.ended":
				var b struct{ Usage, TurnUsage sums }
				e.Into(t, &b)
				turn, thread = b.TurnUsage, b.Usage
			}
		}
		return turn, thread, calls
	}
	used, total, calls := turn("exec", "--events", "go")
	if want := (sums{2020, 202, 2222}); used != want || total != want {
		t.Errorf("the turn used %+v, the thread %+v, want %+v", used, total, want)
	}
	if calls["c1"] != 2 || calls[""] != 2 {
		t.Errorf("reports by call: %v, want two of c1 and two of the turn", calls)
	}
	if out := r.Last().Outputs()["c1"]; out != "hm and hm" {
		t.Errorf("the call gave %q", out)
	}
	used, total, _ = turn("resume", "--events", "--last", "and on")
	if used != (sums{10, 1, 11}) || total != (sums{2030, 203, 2233}) {
		t.Errorf("after a resume the turn used %+v, the thread %+v", used, total)
	}
	r.NothingLeft()
}
