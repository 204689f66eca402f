package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// patch is the call c3, which turns f from before to after.
const patch = `  { call = "apply_patch", id = "c3", freeform = '''
*** Begin Patch
*** Update File: f
@@
-before
+after
*** End Patch
''' },
`

// script is a model that wants two commands at once, a patch, and two commands more.
func script() string {
	return wanted("c1 c2", `  { text = "Two at once.", chunk = "word" },`+"\n"+command("c1", "sleep 0.02;")+command("c2", "")) +
		wanted("c1", command("c1", "")) + wanted("c2", command("c2", "")) + wanted("c3", patch) +
		wanted("c4", command("c4", "sleep 0.05;")) + wanted("c5", command("c5", "setsid sleep 600 & ")) + finished
}

// moments that a run passes, in their order.
var moments = []moment{
	{name: "the model was asked", seen: func(r *rig.Rig, _ *rig.Run) bool { return lines(r.Log) >= 1 }},
	{name: "two commands started", seen: func(r *rig.Rig, _ *rig.Run) bool { return exists(r, "started-c1") && exists(r, "started-c2") }},
	{name: "a command has had its effect", seen: func(r *rig.Rig, _ *rig.Run) bool { return r.Read("ran") != "" }},
	{name: "the model was asked again", seen: func(r *rig.Rig, _ *rig.Run) bool { return lines(r.Log) >= 2 }},
	{name: "the patch was applied", seen: func(r *rig.Rig, _ *rig.Run) bool { return r.Read("f") == "after\n" }},
	{name: "the slow command started", seen: func(r *rig.Rig, _ *rig.Run) bool { return exists(r, "started-c4") }},
	{name: "a call has ended", seen: func(_ *rig.Rig, run *rig.Run) bool { return strings.Contains(run.Stdout(), `"call.ended"`) }},
	{name: "the last answer streams", seen: func(_ *rig.Rig, run *rig.Run) bool { return strings.Contains(run.Stdout(), `"text":"a"`) }},
	{name: "the turn has ended", seen: func(_ *rig.Rig, run *rig.Run) bool { return strings.Contains(run.Stdout(), `"turn.ended"`) }},
}

func exists(r *rig.Rig, name string) bool {
	_, err := os.Stat(filepath.Join(r.Dir, name))
	return err == nil
}

// lines counts the whole lines of a file.
func lines(path string) int {
	b, _ := os.ReadFile(path)
	return strings.Count(string(b), "\n")
}

// live runs a thread through its kills and on to its end, and checks the invariants.
func live(t *testing.T, kills []kill) {
	w := workloads()[0]
	r := rig.New(t, w.script)
	w.setup(t, r)
	args := []string{"exec", "--events", theTask}
	for i, k := range kills {
		t.Logf("%d: kill %s when %s", i+1, k.victim, k.moment.name)
		run := r.Start(args...)
		strike(t, r, run, k)
		res := run.Wait()
		// What a plugin's death costs is a call or a retry, not the run; only one that never came up may cost the turn.
		if k.victim != "host" && res.Code != 0 && (k.moment.seen != nil || !strings.Contains(res.Stdout, `"status":"failed"`)) {
			t.Fatalf("%s was killed, and the run ended with %d:\n%s\n%s", k.victim, res.Code, tail(res.Stdout), res.Stderr)
		}
		// What is committed is a moment behind what happens, but never behind an effect, and never behind what the model saw.
		thread, task := stored(t, r)
		if ran, asked := r.Read("ran"), lines(r.Log); !task && (asked > 0 || ran != "" || r.Read("f") != "before\n") {
			t.Fatalf("the task is not stored, but the model was asked %d times, %q ran and f is %q", asked, ran, r.Read("f"))
		}
		switch {
		case !thread:
			args = []string{"exec", "--events", theTask}
		case !task:
			args = []string{"resume", "--events", "--last", theTask}
		default:
			args = []string{"resume", "--events", "--last", fmt.Sprintf("go on, after kill %d", i+1)}
		}
	}
	if res := r.Gantry(args...); res.Code != 0 {
		t.Fatalf("the thread does not go on: exit %d\n%s\n%s", res.Code, tail(res.Stdout), res.Stderr)
	}
	check(t, r, w, nil)
	// What was repaired stays repaired: once more changes nothing of what was told before.
	before := r.Last().Outputs()
	r.OK("resume", "--last", "is that all?")
	for id, text := range r.Last().Outputs() {
		if before[id] != text {
			t.Errorf("the model read of %s first %q, then %q", id, before[id], text)
		}
	}
	r.NothingLeft()
}

// tail is the end of a long text.
func tail(s string) string {
	const bound = 2000
	return s[max(0, len(s)-bound):]
}

// strike waits for the moment and kills the victim; a run that ends first is left alone.
func strike(t *testing.T, r *rig.Rig, run *rig.Run, k kill) {
	t.Helper()
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		run.Wait()
		close(ended)
	})
	defer wait.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	moment := time.After(k.moment.after)
	for due := false; !due; {
		select {
		case <-ended:
			return
		case <-moment:
			due = k.moment.seen == nil
		case <-tick.C:
			due = k.moment.seen != nil && k.moment.seen(r, run)
		}
	}
	if k.victim == "host" {
		below := rig.Descendants(t, run.Cmd.Process.Pid)
		_ = run.Cmd.Process.Kill() // it may have ended by itself
		<-ended
		r.Until("all that the host had started has ended", func() bool { return len(rig.Alive(below)) == 0 })
		return
	}
	for _, pid := range rig.Processes(t, r.Home, k.victim) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended by itself
		}
	}
	<-ended
}
