//go:build linux

package launch_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// spare returns the spare gantry-launch once it has been started.
func spare(t testing.TB, l *launch.Launcher) watched {
	t.Helper()
	pid := l.Spare()
	if pid == 0 {
		t.Fatal("there is no spare")
	}
	return watchPID(t, "spare", pid)
}

func TestNextProcessUsesTheSpare(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	if pid := l.Spare(); pid != 0 {
		t.Error("a launcher that has started nothing has a spare")
	}
	spawn(t, l, command("sleep", "1000"))
	for range 3 {
		w := spare(t, l)
		p := spawn(t, l, command("sleep", "1000"))
		if p.LauncherPID() != w.pid {
			t.Errorf("the process has the launcher %d, want the spare %d", p.LauncherPID(), w.pid)
		}
	}
	// A failed start uses the spare as well, and is followed by another.
	w := spare(t, l)
	if _, err := l.Spawn(t.Context(), command("/no/such/program")); err == nil {
		t.Fatal("it started")
	}
	w.ends(t, within)
	if next := spare(t, l); next.pid == w.pid {
		t.Error("the spare is one that was used")
	}
}

func TestSpareHasNothingOfTheHost(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script("sleep 1000")
	s.Env = append(s.Env, "SECRET=of the first process")
	spawn(t, l, s)
	w := spare(t, l)
	dir := "/proc/" + strconv.Itoa(w.pid)
	// It closes inherited descriptors before it receives an order, so give it one.
	next := spawn(t, l, command("sleep", "1000"))
	if next.LauncherPID() != w.pid {
		t.Fatal("the next process took another one")
	}
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, fd := range fds {
		to, _ := os.Readlink(dir + "/fd/" + fd.Name())
		if to != "anon_inode:[eventfd]" { // of its own, by which it learns that its tree has ended
			open = append(open, fd.Name()+" "+to)
		}
	}
	if slices.ContainsFunc(open, func(s string) bool { return !strings.Contains(s, "socket:") }) || len(open) != 3 {
		t.Errorf("it has open: %q", open)
	}
	environ, err := os.ReadFile(dir + "/environ")
	if err != nil || strings.Contains(string(environ), "SECRET") || strings.Count(string(environ), "\x00") != 2 {
		t.Errorf("its environment is %q, %v", environ, err)
	}
	if cwd, err := os.Readlink(dir + "/cwd"); cwd != "/" || err != nil {
		t.Errorf("it works in %q, %v", cwd, err)
	}
	if sid, err := unix.Getsid(w.pid); sid != w.pid || err != nil {
		t.Errorf("it is in the session %d, %v", sid, err)
	}
}

func TestDeadSpareIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	spawn(t, l, command("sleep", "1000"))
	w := spare(t, l)
	if err := syscall.Kill(w.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.ends(t, within)
	out, _, exit := run(t, l, script("echo $0 works; exit 3"))
	if out != "/bin/sh works\n" || exit.Code != 3 {
		t.Errorf("%q, %+v", out, exit)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(w.pid)); err == nil {
		t.Error("the dead one was not waited for")
	}
}

func TestCloseEndsTheSpare(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for range 20 { // with luck in the middle of the start of one
		spawn(t, l, command("true"))
	}
	w := spare(t, l)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ends(t, 0) // Close returns when it has
	if pid := l.Spare(); pid != 0 {
		t.Errorf("a closed launcher has the spare %d", pid)
	}
}

// ended runs a process, and returns it once its tree has ended.
func ended(t testing.TB, l *launch.Launcher, s launch.Spec) *launch.Process {
	t.Helper()
	p := spawn(t, l, s)
	<-p.Gone()
	return p
}

func TestLauncherIsReused(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	l.NoHurry()
	s := script("exit 3")
	s.Env = append(s.Env, "SECRET=of the first process")
	first := ended(t, l, s)
	for i := range 5 {
		out, _, exit := run(t, l, script(`echo "$SECRET|$PWD"; exit 4`))
		if want := "|" + script("").Cwd + "\n"; out != want || exit.Code != 4 {
			t.Errorf("%q, want %q; %+v", out, want, exit)
		}
		if pid := l.Spare(); pid != first.LauncherPID() {
			t.Errorf("after %d further processes the spare is %d, want the first one's launcher %d", i+1, pid, first.LauncherPID())
		}
	}
	p := spawn(t, l, command("sleep", "1000"))
	if p.LauncherPID() != first.LauncherPID() {
		t.Error("the last process has another launcher")
	}
	w := watchPID(t, "launcher", p.LauncherPID())
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	w.ends(t, within)
}

// A gantry-launch is not free while a process of its tree runs.
func TestLauncherIsNotReusedWhileItsTreeRuns(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, script("sleep 1000 >/dev/null 2>&1 & exit 0"))
	if exit := wait(t, p); exit.Code != 0 {
		t.Fatal(exit)
	}
	if pid := l.Spare(); pid == 0 || pid == p.LauncherPID() {
		t.Errorf("the spare is %d, beside the launcher %d of a tree that runs", pid, p.LauncherPID())
	}
	w := watchPID(t, "launcher", p.LauncherPID())
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	w.ends(t, within)
}

// Requests about a tree that has ended don't reach the next tree of the same gantry-launch.
func TestEndedProcessCannotReachTheNext(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	l.NoHurry()
	first := ended(t, l, command("true"))
	second := spawn(t, l, command("sleep", "1000"))
	if first.LauncherPID() != second.LauncherPID() {
		t.Fatal("they have not got the same launcher")
	}
	if err := first.Signal(syscall.SIGKILL, true); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal: %v", err)
	}
	if err := first.KillTree(t.Context()); err != nil {
		t.Errorf("kill: %v", err)
	}
	first.Forget()
	if err := second.Signal(0, false); err != nil {
		t.Errorf("the second one: %v", err)
	}
}

// Signal and Kill frames that are under way when a tree ends are skipped: the next process must not get them.
func TestLateFramesAreSkipped(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for range 50 {
		p := spawn(t, l, command("true"))
		go func() { // ends with the process
			for p.Signal(syscall.SIGURG, false) == nil {
			}
		}()
		<-p.Gone()
		if out, _, exit := run(t, l, script("echo works")); out != "works\n" || exit.Code != 0 {
			t.Fatalf("%q, %+v", out, exit)
		}
	}
}

func TestLauncherIsReusedForOnePluginOnly(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	l.NoHurry()
	own := func(s launch.Spec, plugin string) launch.Spec {
		s.Owner.Plugin = plugin
		return s
	}
	first := ended(t, l, own(command("true"), "shell"))
	w := watchPID(t, "launcher", first.LauncherPID())
	second := ended(t, l, own(command("true"), "mcp"))
	if second.LauncherPID() == first.LauncherPID() {
		t.Error("two plugins have one launcher")
	}
	w.ends(t, within)
	// A tree whose resources are limited gets a gantry-launch that has not served others.
	s := own(command("true"), "mcp")
	s.Grant.Limits.CPUSeconds = 100
	if third := ended(t, l, s); third.LauncherPID() == second.LauncherPID() {
		t.Error("a tree with a limit has a launcher that was used")
	}
}

// A gantry-launch collects no garbage, so the number of its orders is limited.
func TestFullLauncherIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	l.NoHurry()
	s := command("true")
	s.Env = append(s.Env, "LONG="+strings.Repeat("x", 100<<10))
	launchers := map[int]bool{}
	for range 4 {
		launchers[ended(t, l, s).LauncherPID()] = true
		l.Spare()
	}
	if len(launchers) != 2 {
		t.Errorf("%d launchers for four orders of 100 KiB, want 2", len(launchers))
	}
}

func TestLongOrders(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for _, kib := range []int{1, 15, 16, 17, 100} { // the kernel takes 128 KiB for one
		s := script(`echo ${#LONG}`)
		s.Env = append(s.Env, "LONG="+strings.Repeat("x", kib<<10))
		if out, _, exit := run(t, l, s); out != strconv.Itoa(kib<<10)+"\n" || exit.Code != 0 {
			t.Errorf("%d KiB: %q, %+v", kib, out, exit)
		}
	}
}
