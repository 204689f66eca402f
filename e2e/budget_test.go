package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// What a plugin asks the model counts against the budget, and is refused when that is reached: the call learns it, and so
// does the user before the next request of the turn.
func TestBudgetHoldsForPlugins(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tokens   string
		requests int
		used     string
	}{
		"reached by the plugin": {"2000", 3, "has used 2233 tokens"},
		"reached before it":     {"11", 1, "has used 11 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, `
[[step]]
usage = { input = 10, output = 1 }
do    = [{ call = "think", id = "c1", args = {} }]
[[step]]
when  = { user = "a question" }
times = -1
usage = { input = 1010, output = 101 }
do    = [{ text = "hm" }]
[[step]]
times = -1
do    = [{ text = "done" }]
`)
			addOdd(t, r, "samples", "samples", "")
			res := r.Gantry("-c", "budget.turn_tokens="+tc.tokens, "exec", "go")
			if res.Code != 1 || !strings.Contains(res.Stderr, "the budget is reached: the turn "+tc.used) || !strings.Contains(res.Stderr, "budget.turn_tokens is "+tc.tokens) {
				t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
			}
			if n := len(r.Requests()); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
			r.OK("resume", "--last", "go on")
			out := r.Last().Outputs()["c1"]
			if refused := strings.Contains(out, "the budget is reached"); refused != (tc.requests == 1) {
				t.Errorf("the call gave %q", out)
			}
			r.NothingLeft()
		})
	}
}
