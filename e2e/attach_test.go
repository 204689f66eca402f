package e2e_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// waiting is a model whose first call waits for a file of the test.
const waiting = `
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "go" } }]
[[step]]
times = -1
do = [{ text = "answer ${request}" }]
`

// busy starts a host whose thread is in the middle of a call.
func busy(t *testing.T, args ...string) (r *rig.Rig, run *rig.Run, thread string) {
	t.Helper()
	r = rig.New(t, waiting)
	addOdd(t, r, "waits", "waits", "")
	run = r.Start(append([]string{"exec"}, args...)...)
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	return r, run, threads(t, r)[0].ID
}

// kinds lists the kinds of durable events.
func kinds(events []rig.Event) []string {
	var out []string
	for _, e := range events {
		if e.Seq > 0 {
			out = append(out, e.Kind)
		}
	}
	return out
}

// A second process watches a running thread: from its beginning, without a gap, in the same order, to its end.
func TestAttach(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "--events", "go")
	watcher := r.Start("attach", "--events", thread)
	watcher.Sees(`"item.started"`)
	r.Write("go", "")
	res, watched := run.Wait(), watcher.Wait()
	if res.Code != 0 || watched.Code != 0 {
		t.Fatalf("exit %d and %d:\n%s%s", res.Code, watched.Code, res.Stderr, watched.Stderr)
	}
	first, second := rig.Events(t, res.Stdout), rig.Events(t, watched.Stdout)
	last := rig.Gapless(t, first, 1)
	if n := rig.Gapless(t, second, 1); n < last {
		t.Errorf("the watcher saw %d events, the host had %d", n, last)
	}
	// The watcher stays to the end of the thread, the host's own view ends with the turn.
	if a, b := kinds(first), kinds(second); !slices.Equal(a, b[:min(len(a), len(b))]) {
		t.Errorf("the watcher saw\n%v\nthe host had\n%v", b, a)
	}
	r.NothingLeft()
	if res := r.Gantry("attach", thread); res.Code != 1 || !strings.Contains(res.Stderr, "gantry resume") {
		t.Errorf("attach to a thread that nobody runs: exit %d\n%s", res.Code, res.Stderr)
	}
}

// Somebody who resumes a thread that another process runs hands the task over: it steers the turn that runs.
func TestResumeWhileRunning(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "--json", "first")
	second := r.Start("resume", thread, "second")
	second.Sees("another process runs this thread")
	r.Until("the task was handed over", func() bool {
		return strings.Contains(second.Output(), "first") // the events of the thread begin to arrive after that
	})
	r.Write("go", "")
	res, handed := run.Wait(), second.Wait()
	if res.Code != 0 || handed.Code != 0 {
		t.Fatalf("exit %d and %d:\n%s%s", res.Code, handed.Code, res.Stderr, handed.Stderr)
	}
	users := r.Last().Texts(llm.RoleUser)
	if !slices.Contains(users, "first") || !slices.Contains(users, "second") {
		t.Errorf("the model reads %q, want both tasks", users)
	}
	if n := len(threads(t, r)); n != 1 {
		t.Errorf("%d threads, want 1", n)
	}
	r.NothingLeft()
}

// A client that goes away, in whatever way, costs the thread nothing.
func TestAttachedClientIsKilled(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "go")
	before := count(rig.Descriptors(t, run.Cmd.Process.Pid))
	for range 3 {
		watcher := r.Start("attach", "--events", thread)
		watcher.Sees(`"item.started"`)
		rig.Kill(t, watcher.Cmd.Process.Pid)
		watcher.Wait()
	}
	r.Until("the host has closed the connections", func() bool {
		return count(rig.Descriptors(t, run.Cmd.Process.Pid))["socket"] <= before["socket"]
	})
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
}

// A plugin is replaced while it works: the call is finished by the old process, the next one goes to the new.
func TestReloadWhileACallRuns(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "one" } }]
[[step]]
do = [{ call = "wait_for", id = "c2", args = { file = "two" } }]
[[step]]
do = [{ text = "done" }]
`)
	addOdd(t, r, "waits", "waits", "")
	r.Write("two", "")
	run := r.Start("exec", "go")
	r.Until("the call runs", func() bool { return r.Read("one.waiting") != "" })
	old := r.Read("one.waiting")
	res := r.OK("plugin", "reload", "waits")
	if !strings.Contains(res.Stdout, "reloaded waits") {
		t.Errorf("reload says:\n%s%s", res.Stdout, res.Stderr)
	}
	r.Write("one", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Last().Outputs()
	if want := "waited in " + old; out["c1"] != want {
		t.Errorf("c1: %q, want %q", out["c1"], want)
	}
	if !strings.HasPrefix(out["c2"], "waited in ") || out["c2"] == out["c1"] {
		t.Errorf("c2: %q, want another process than %q", out["c2"], out["c1"])
	}
	r.NothingLeft()
}

// A replacement that does not come up leaves the old one at work.
func TestReloadOfABrokenPlugin(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "one" } }]
[[step]]
do = [{ call = "wait_for", id = "c2", args = { file = "two" } }]
[[step]]
do = [{ text = "done" }]
`)
	addOdd(t, r, "waits", "waits", "")
	r.Write("two", "")
	run := r.Start("exec", "go")
	r.Until("the call runs", func() bool { return r.Read("one.waiting") != "" })
	old := r.Read("one.waiting")
	path := filepath.Join(r.Home, "bin", "waits")
	replace(t, path, []byte("#!/bin/sh\necho 'listening on :8080'\n"))
	// Not locked: refused without being started.
	res := r.Gantry("plugin", "reload", "waits")
	if res.Code != 1 || !strings.Contains(res.Stderr, "whose old process stays in use") {
		t.Errorf("reload of a changed file: exit %d\n%s", res.Code, res.Stderr)
	}
	// Locked, and broken.
	r.Pin(path)
	res = r.Gantry("plugin", "reload", "waits")
	if res.Code != 1 || !strings.Contains(res.Stderr, "whose old process stays in use") || !strings.Contains(res.Stderr, "listening on :8080") {
		t.Errorf("reload of a broken file: exit %d\n%s", res.Code, res.Stderr)
	}
	r.Write("one", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Last().Outputs()
	for _, id := range []string{"c1", "c2"} {
		if want := "waited in " + old; out[id] != want {
			t.Errorf("%s: %q, want %q", id, out[id], want)
		}
	}
	r.NothingLeft()
}

// A client that stops reading is left behind; the host does not wait for it, neither while it works nor at its end.
func TestAttachedClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "go" } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "seq 1 200000", login = false } }]
[[step]]
do = [{ text = "done" }]
`)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "go")
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	watcher := r.Start("attach", "--events", threads(t, r)[0].ID)
	watcher.Sees(`"item.started"`)
	watcher.Signal(syscall.SIGSTOP)
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	watcher.Signal(syscall.SIGCONT)
	watcher.Wait()
	r.NothingLeft()
}

// A host that is stopped answers nothing: whoever wants something of it gives up within a bound, says which process it is,
// and has changed nothing.
func TestStoppedHost(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "go")
	watcher := r.Start("attach", "--events", thread)
	watcher.Sees(`"item.started"`)
	run.Signal(syscall.SIGSTOP)
	waits := map[string]*rig.Run{
		"attach":          r.Start("attach", thread),
		"attach, a task":  r.Start("attach", thread, "second"),
		"resume":          r.Start("resume", thread, "third"),
		"plugin reload":   r.Start("plugin", "reload", "waits"),
		"one that waited": watcher,
	}
	pid := strconv.Itoa(run.Cmd.Process.Pid)
	for name, w := range waits {
		res := w.Wait()
		if res.Code != 1 || !strings.Contains(res.Stderr, "pid "+pid) || !strings.Contains(res.Stderr, "Next: ") || !strings.Contains(res.Stderr, "kill -CONT "+pid) {
			t.Errorf("%s: exit %d, want a message with process %s and what to do:\n%s", name, res.Code, pid, res.Stderr)
		}
	}
	run.Signal(syscall.SIGCONT)
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if users := r.Last().Texts(llm.RoleUser); slices.Contains(users, "second") || slices.Contains(users, "third") {
		t.Errorf("a task that was said not to be taken was taken: %q", users)
	}
	r.NothingLeft()
}
