package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A person ends a session that a tool left running, over the run socket of its thread: its processes end, and the thread continues.
func TestSessionIsStopped(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "s1", args = { cmd = "touch started; while :; do sleep 0.05; done", yield_time_ms = 250 } }]
[[step]]
capture = [{ call = "s1", pattern = 'session ID (?P<s>\d+)' }]
do = [{ call = "wait_for", id = "w1", args = { file = "go" } }]
[[step]]
do = [{ call = "write_stdin", id = "s2", raw = '{"session_id": ${s}, "chars": "", "yield_time_ms": 30000}' }]
[[step]]
do = [{ text = "done" }]
`)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "--events", "go")
	run.Sees(`"session.opened"`)
	r.Until("the call waits", func() bool { return exists(r.Dir, "go.waiting") })
	var opened struct{ Session, Plugin string }
	thread := ""
	for _, e := range rig.Events(t, run.Stdout()) {
		if thread = e.Thread; e.Kind == "session.opened" {
			e.Into(t, &opened)
		}
	}
	if opened.Session == "" || opened.Plugin != "shell" {
		t.Fatalf("opened %+v", opened)
	}
	if res := r.Gantry("threads", "stop", thread, "4711"); res.Code != 1 || !strings.Contains(res.Stderr, `no session "4711" is open`) ||
		!strings.Contains(res.Stderr, "choose one of "+opened.Session) {
		t.Errorf("a session that does not exist: exit %d\n%s", res.Code, res.Stderr)
	}
	if res := r.Gantry("threads", "stop", "--plugin", "waits", thread, opened.Session); res.Code != 1 || !strings.Contains(res.Stderr, "no session") {
		t.Errorf("a session of another plugin: exit %d\n%s", res.Code, res.Stderr)
	}
	r.OK("threads", "stop", thread, opened.Session)
	run.Sees(`"session.exited"`)
	if left := rig.Processes(t, r.Dir, "sleep 0.05"); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if res := r.Gantry("threads", "stop", thread, opened.Session); res.Code != 1 || !strings.Contains(res.Stderr, fmt.Sprintf("thread %s has no open session", thread)) {
		t.Errorf("a session that has ended: exit %d\n%s", res.Code, res.Stderr)
	}
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if out := r.Last().Outputs()["s2"]; !strings.Contains(out, "exited") && !strings.Contains(out, "Unknown process id") {
		t.Errorf("the model reads %q", out)
	}
	if res := r.Gantry("threads", "stop", thread, opened.Session); res.Code != 1 || !strings.Contains(res.Stderr, "is not running") {
		t.Errorf("a thread that has ended: exit %d\n%s", res.Code, res.Stderr)
	}
	r.NothingLeft()
}
