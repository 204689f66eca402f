package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A thread is named by its number in the listing of the folder, by the end of its ID, or as the newest one.
func TestShortNamesOfThreads(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	for _, task := range []string{"the oldest", "the middle", "the newest"} {
		r.OK("exec", task)
	}
	lines := strings.Split(strings.TrimSpace(r.OK("threads", "list").Stdout), "\n")
	if len(lines) != 4 {
		t.Fatalf("%q", lines)
	}
	for i, task := range []string{"the newest", "the middle", "the oldest"} {
		f := strings.Fields(lines[i+1])
		if f[0] != string(rune('1'+i)) || !strings.Contains(lines[i+1], " scripted/scripted ") || !strings.HasSuffix(lines[i+1], task) {
			t.Errorf("line %q", lines[i+1])
		}
	}
	oldest := strings.Fields(lines[3])[1]
	continued := func(first string, args ...string) {
		t.Helper()
		r.OK(append([]string{"resume"}, args...)...)
		if texts := strings.Join(r.Last().Texts(llm.RoleUser), "\n"); !strings.Contains(texts, first) || !strings.Contains(texts, args[len(args)-1]) {
			t.Errorf("%q continues %q", args, texts)
		}
	}
	continued("the newest", "-1", "go on")
	continued("the middle", "2", "go on") // which makes it the newest
	continued("the middle", "1", "again")
	continued("the oldest", oldest[len(oldest)-8:], "go on")
	if res := r.Gantry("resume", "4", "go on"); res.Code != 1 || !strings.Contains(res.Stderr, "the listing has 3") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	if out := r.OK("threads", "list", "--all").Stdout; !strings.Contains(out, "\n-  ") {
		t.Errorf("numbers that name nothing:\n%s", out)
	}
}
