//go:build linux

package launch_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// spare is the launcher's spare once it has been started.
func spare(t testing.TB, l *launch.Launcher) watched {
	t.Helper()
	pid := l.Spare()
	if pid == 0 {
		t.Fatal("there is no spare")
	}
	return watchPID(t, "spare", pid)
}

func TestTheNextProcessTakesTheSpare(t *testing.T) {
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
	// Also a failed start takes it, and leaves another.
	w := spare(t, l)
	if _, err := l.Spawn(t.Context(), command("/no/such/program")); err == nil {
		t.Fatal("it started")
	}
	w.ends(t, within)
	if next := spare(t, l); next.pid == w.pid {
		t.Error("the spare is one that was used")
	}
}

func TestTheSpareHoldsNothing(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script("sleep 1000")
	s.Env = append(s.Env, "SECRET=of the first process")
	spawn(t, l, s)
	w := spare(t, l)
	dir := "/proc/" + strconv.Itoa(w.pid)
	// What it was started with is closed as soon as it runs, which it shows by taking an order: the next one does.
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
		open = append(open, fd.Name()+" "+to)
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

func TestADeadSpareIsReplaced(t *testing.T) {
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
