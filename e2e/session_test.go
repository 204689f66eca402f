package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A plugin speaks in a thread outside any call, from the moment when the thread is opened until the host tells it that the
// thread is over.
func TestPluginSpeaksInItsThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "nothing", id = "c1" }]
[[step]]
do = [{ call = "wait_for", id = "w1", args = { file = "go-w1" } }]
[[step]]
do = [{ text = "done" }]
`)
	addOdd(t, r, "waits", "waits", "")
	addOdd(t, r, "speaks", "speaks", "")
	run := r.Start("exec", "--events", "go")
	r.Until("the plugin has spoken", func() bool { return exists(r.Dir, "spoke") })
	r.Write("go-w1", "")
	res := run.Wait()
	if res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	events := rig.Events(t, res.Stdout)
	rig.Gapless(t, events, 1)
	var said []string
	for _, e := range events {
		if e.Kind == "plugin.event" {
			var b struct {
				Plugin, Name string
				Payload      struct{ Cwd string }
			}
			e.Into(t, &b)
			said = append(said, fmt.Sprintf("%s %s in %s, turn %q", b.Plugin, b.Name, b.Payload.Cwd, e.Turn))
		}
	}
	if want := fmt.Sprintf("speaks thread.seen in %s, turn \"\"", r.Dir); len(said) != 1 || said[0] != want {
		t.Errorf("the plugin said %q, want %q", said, want)
	}
	if late := r.Read("late"); !strings.Contains(late, "not valid") && !strings.Contains(late, "the thread is over") {
		t.Errorf("after the thread's end the plugin is told %q", late)
	}
	r.NothingLeft()
}

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
