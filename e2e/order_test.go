package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// What one answer types into a session arrives in the order of the answer, and each call reads what it caused.
func TestInputsOfOneAnswerKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const inputs = 5
	var calls strings.Builder
	for i := range inputs {
		fmt.Fprintf(&calls, "  { call = \"write_stdin\", id = \"w%d\", raw = '{\"session_id\": ${id}, \"chars\": \"line %[1]d\\n\", \"yield_time_ms\": 250}' },\n", i)
	}
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "stty -echo; while read l; do echo $l >> typed; echo got $l; done", tty = true, yield_time_ms = 250 } }]
[[step]]
capture = [{ call = "c1", pattern = 'session ID (?P<id>\d+)' }]
do = [
`+calls.String()+`]
[[step]]
do = [{ text = "done" }]
`)
	r.OK("exec", "go")
	var want strings.Builder
	for i := range inputs {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if got := r.Read("typed"); got != want.String() {
		t.Errorf("typed:\n%swant:\n%s", got, want.String())
	}
	out := r.Last().Outputs()
	for i := range inputs {
		if id := fmt.Sprint("w", i); !strings.Contains(out[id], fmt.Sprintf("got line %d", i)) {
			t.Errorf("%s reads %q", id, out[id])
		}
	}
	r.NothingLeft()
}
