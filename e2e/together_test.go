package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// Many runs on one home wait for each other's writes: no run fails, no call is refused, and every event is stored.
func TestManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	const runs, calls = 60, 3
	script := strings.Repeat(`
[[step]]
do = [{ call = "exec_command", args = { cmd = "echo it ran" } }]
`, calls) + `
[[step]]
do = [{ text = "done" }]
`
	r := rig.New(t, script)
	all := make([]*rig.Run, runs)
	for i := range all {
		all[i] = r.Start("exec", "--json", "go")
	}
	for i, run := range all {
		res := run.Wait()
		ran := strings.Count(res.Stdout, `"aggregated_output":"it ran\n","exit_code":0`)
		if res.Code != 0 || ran != calls || strings.Contains(res.Stderr, "not stored") {
			t.Errorf("run %d: exit %d, %d of %d calls ran:\n%.2000s\n%.2000s", i, res.Code, ran, calls, res.Stdout, res.Stderr)
		}
	}
	if out := r.OK("threads", "check").Stdout; !strings.Contains(out, fmt.Sprintf("%d threads", runs)) || !strings.Contains(out, "all whole") {
		t.Errorf("%s", out)
	}
	r.NothingLeft()
}
