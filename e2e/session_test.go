package e2e_test

import (
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// What the host holds for commands that have ended does not grow with their number, though their thread lives on.
func TestDescriptorsDoNotGrowWithCommands(t *testing.T) {
	t.Parallel()
	wait := func(id string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"wait_for\", id = %q, args = { file = \"go-%[1]s\" } }]\n", id)
	}
	commands := func(n int) string {
		return fmt.Sprintf("[[step]]\ntimes = %d\ndo = [{ call = \"exec_command\", args = { cmd = \"echo x\", login = false } },"+
			" { call = \"exec_command\", args = { cmd = \"echo x\", login = false, tty = true } }]\n", n)
	}
	r := rig.New(t, commands(5)+wait("w1")+commands(100)+wait("w2")+"[[step]]\ndo = [{ text = \"done\" }]\n")
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "go")
	open := func(id string) map[string]int {
		r.Until("the model waits", func() bool { return exists(r.Dir, "go-"+id+".waiting") })
		defer r.Write("go-"+id, "")
		return count(rig.Descriptors(t, run.Cmd.Process.Pid))
	}
	before := open("w1")
	for what, n := range open("w2") {
		if n > before[what]+2 { // the last commands may be on their way
			t.Errorf("%d descriptors of %s after 210 commands, %d after 10", n, what, before[what])
		}
	}
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	r.NothingLeft()
}
