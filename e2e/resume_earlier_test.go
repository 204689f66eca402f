package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// On a terminal, resume shows the end of the thread before it goes on; to programs it shows what is new alone.
func TestResumeShowsTheEndOfTheThread(t *testing.T) {
	t.Parallel()
	var steps strings.Builder
	for n := range 8 {
		fmt.Fprintf(&steps, "[[step]]\ndo = [{ text = \"answer-%d\" }]\n", n)
	}
	r := rig.New(t, steps.String())
	r.OK("exec", "task-0")
	for n := 1; n < 5; n++ {
		r.OK("resume", "--last", fmt.Sprintf("task-%d", n))
	}
	shown := func(out string, what ...string) {
		t.Helper()
		at := 0
		for _, s := range what {
			i := strings.Index(out[at:], s)
			if i < 0 {
				t.Errorf("%q is missing or in the wrong place in\n%s", s, out)
				return
			}
			at += i + len(s)
		}
	}
	run := r.Terminal("resume", "--last", "task-5")
	res := run.Wait()
	shown(res.Stdout, "gantry threads show", "task-2", "answer-2", "task-3", "answer-3", "task-4", "answer-4", "thread ", "task-5", "answer-5")
	if res.Code != 0 || strings.Contains(res.Stdout, "task-1") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	res = r.Terminal("resume", "--last", "--ephemeral", "task-6").Wait()
	shown(res.Stdout, "task-3", "task-4", "task-5", "answer-5", "thread ", "task-6", "answer-6")
	if res := r.OK("resume", "--last", "task-7"); strings.Contains(res.Stderr, "task-5") {
		t.Errorf("a program is shown\n%s", res.Stderr)
	}
}
