//go:build linux

package launch_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// everybody is the names of the processes of the helper "tree".
var everybody = []string{"top", "child", "daemon"}

// tree starts the helper "tree" and returns handles of all its processes.
func tree(t testing.TB, l *launch.Launcher, s launch.Spec) (*launch.Process, []watched) {
	t.Helper()
	p := spawn(t, l, s)
	var ws []watched
	for name, pid := range pids(t, background(t, p), everybody...) {
		ws = append(ws, watchPID(t, name, pid))
	}
	return p, ws
}

func TestKillTreeReachesDaemonsThatIgnoreSIGTERM(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.KillGrace = 50 * time.Millisecond })
	p, all := tree(t, l, helper("tree"))
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.ends(t, 0) // KillTree returns when they have ended
	}
	exit := wait(t, p)
	if exit.Code != 137 || exit.Signal != syscall.SIGKILL || exit.Lost {
		t.Errorf("exit %+v", exit)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestKillTreeAsksFirst(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.KillGrace = within })
	p := spawn(t, l, helper("polite"))
	pids(t, background(t, p), "polite")
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Code != int(syscall.SIGTERM) {
		t.Errorf("exit %+v, want the code %d", exit, syscall.SIGTERM)
	}
	// With a terminal, SIGHUP comes first. nohup ignores it.
	want := syscall.SIGHUP
	if signal.Ignored(want) {
		want = syscall.SIGTERM
	}
	s := command("sleep", "1000")
	s.Terminal = &launch.Size{}
	p = spawn(t, l, s)
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != want {
		t.Errorf("exit %+v, want it to end by %v", exit, want)
	}
}

func TestKillTreeAsksNewProcessesAndNoneTwice(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.KillGrace = within })
	p := spawn(t, l, helper("counting"))
	pids(t, background(t, p), "counting")
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Code != 1 {
		t.Errorf("exit %+v, want code 1: asked once", exit)
	}
}

func TestKillTreeReachesStoppedProcesses(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.KillGrace = within })
	p := spawn(t, l, command("sleep", "1000"))
	if err := p.Signal(syscall.SIGSTOP, true); err != nil {
		t.Fatal(err)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != syscall.SIGTERM {
		t.Errorf("exit %+v, want it to end by SIGTERM", exit)
	}
}

func TestKillTreeContinuesAfterItsContextEnds(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p, all := tree(t, l, helper("tree"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no time")
	cancel(cause)
	if err := p.KillTree(ctx); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	for _, w := range all {
		w.ends(t, within)
	}
}

func TestKillTreeEndsForkBombs(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.KillGrace = time.Millisecond })
	// Three chains of processes, each of which continually replaces itself with a daemon in a new session.
	s := script(`trap "" TERM; echo ready; for i in 1 2 3; do setsid /bin/sh -c "$BODY" & done; sleep 1000`)
	s.Env = append(s.Env, `BODY=setsid /bin/sh -c "$BODY" & exit 0`)
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid of util-linux")
	}
	p := spawn(t, l, s)
	if _, err := bufio.NewReader(background(t, p)).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	// A hundred grandchildren whose parents end first; a line is printed when the last has ended.
	p := spawn(t, l, script(`i=0; while [ $i -lt 100 ]; do (true &); i=$((i+1)); done; echo done; read x`))
	if _, err := bufio.NewReader(background(t, p)).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Gone():
	default:
		t.Error("the launcher has not ended: something of the tree was not reaped")
	}
}

func TestExitBeforeTheTree(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, script(`sleep 1000 >/dev/null 2>&1 & echo $!; exit 5`))
	var left watched
	line, err := bufio.NewReader(background(t, p)).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	left = watchPID(t, "sleep", pid)
	if exit := wait(t, p); exit.Code != 5 {
		t.Errorf("exit %+v, want code 5", exit)
	}
	if !left.alive() {
		t.Error("what the process left behind ended with it")
	}
	// The group has lost its leader but can still be signalled.
	if err := p.Signal(syscall.SIGTERM, false); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to the process: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM, true); err != nil {
		t.Errorf("signal to the group: %v", err)
	}
	left.ends(t, within)
	<-p.Gone()
	if err := p.Signal(syscall.SIGTERM, true); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	text := `trap 'echo got; exit 9' INT; echo ready; while :; do sleep 1000 & wait $!; done`
	p := spawn(t, l, script(text))
	out := bufio.NewReader(background(t, p))
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGINT, true); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != "got\n" {
		t.Errorf("after SIGINT: %q, %v", line, err)
	}
	if exit := wait(t, p); exit.Code != 9 {
		t.Errorf("exit %+v, want code 9", exit)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR1} {
		p := spawn(t, l, command("sleep", "1000"))
		if err := p.Signal(sig, false); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); exit.Code != 128+int(sig) || exit.Signal != sig {
			t.Errorf("exit %+v after signal %d", exit, sig)
		}
	}
	p = spawn(t, l, command("sleep", "1000"))
	if err := p.Signal(syscall.Signal(4711), false); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a signal that there isn't: %v", err)
	}
}

func TestEndOfCallThreadAndPlugin(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	start := func(plugin, thread, call string, session bool) watched {
		s := command("sleep", "1000")
		s.Owner = launch.Owner{Plugin: plugin, Thread: thread, Call: call}
		if s.Session = session; session {
			s.Keep = &launch.Keep{}
		}
		p := spawn(t, l, s)
		return watchPID(t, strings.Join([]string{plugin, thread, call, strconv.FormatBool(session)}, "/"), p.PID())
	}
	call := start("a", "1", "x", false)
	session := start("a", "1", "x", true)
	other := start("a", "1", "y", false)
	thread := start("a", "2", "x", true)
	plugin := start("b", "2", "x", true)
	steps := []struct {
		name  string
		end   func() error
		ended []watched
		alive []watched
	}{
		{"call", func() error { return l.EndCall(t.Context(), launch.Owner{Plugin: "a", Thread: "1", Call: "x"}) },
			[]watched{call}, []watched{session, other, thread, plugin}},
		{"thread", func() error { return l.EndThread(t.Context(), "1") }, []watched{session, other}, []watched{thread, plugin}},
		{"plugin", func() error { return l.EndPlugin(t.Context(), "b") }, []watched{plugin}, []watched{thread}},
	}
	for _, step := range steps {
		if err := step.end(); err != nil {
			t.Errorf("end of the %s: %v", step.name, err)
		}
		for _, w := range step.ended {
			w.ends(t, 0)
		}
		for _, w := range step.alive {
			if !w.alive() {
				t.Errorf("the end of the %s ended %s", step.name, w.name)
			}
		}
	}
	if got := len(l.Kept("a", "")); got != 1 {
		t.Errorf("plugin a has %d sessions left, want 1", got)
	}
}

func TestEndOfCallDuringSpawn(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	owner := command("x").Owner
	for range 20 {
		call, cancel := context.WithCancel(t.Context())
		started := make(chan *launch.Process, 1)
		go func() { // ends with the spawn; received from below
			p, err := l.Spawn(call, command("sleep", "1000"))
			if err != nil && !errors.Is(err, launch.ErrEnded) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			started <- p
		}()
		cancel()
		if err := l.EndCall(t.Context(), owner); err != nil {
			t.Error(err)
		}
		if p := <-started; p != nil {
			<-p.Gone()
		}
		if n := l.Count(); n != 0 {
			t.Fatalf("%d processes survived their call", n)
		}
	}
}

// host starts the helper "host" with a target, and returns the output of both.
func host(t *testing.T, target string, env ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), helperEnv+"=host", "TARGET="+target), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, out
}

func TestHostIsKilled(t *testing.T) {
	t.Parallel()
	cmd, out := host(t, "tree")
	found := pids(t, out, append([]string{"target", "launcher", "spare"}, everybody...)...)
	if found["target"] != found["top"] {
		t.Errorf("the target says that it is %d, the host %d", found["top"], found["target"])
	}
	var all []watched
	for name, pid := range found {
		all = append(all, watchPID(t, name, pid))
	}
	killed := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.ends(t, within)
	}
	t.Logf("all of the tree ended %v after its host", time.Since(killed))
}

func TestLauncherIsKilled(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, script(`trap "" TERM HUP; sleep 1000 & echo child $!; wait`))
	found := pids(t, background(t, p), "child")
	all := []watched{watchPID(t, "target", p.PID()), watchPID(t, "child", found["child"])}
	if err := syscall.Kill(p.LauncherPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); !exit.Lost || exit.Code != 137 {
		t.Errorf("exit %+v, want it lost with code 137", exit)
	}
	for _, w := range all {
		w.ends(t, within)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Errorf("kill what is lost: %v", err)
	}
}

// A process with a session of its own survives a killed gantry-launch. It becomes a child of the host, so that it remains known as one of
// the host's processes.
func TestDaemonOfAKilledLauncherIsAdopted(t *testing.T) {
	t.Parallel()
	cmd, out := host(t, "tree")
	found := pids(t, out, "launcher", "daemon")
	t.Cleanup(func() { syscall.Kill(found["daemon"], syscall.SIGKILL) })
	if err := syscall.Kill(found["launcher"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	parent := func() string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", found["daemon"]))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[1]
	}
	for deadline := time.Now().Add(within); parent() != strconv.Itoa(cmd.Process.Pid); {
		if time.Now().After(deadline) {
			t.Fatalf("process %s is its parent, want the host %d", parent(), cmd.Process.Pid)
		}
	}
}

// Only the kernel can end the tree: the host is stopped.
func TestLauncherIsKilledWhileTheHostIsStopped(t *testing.T) {
	t.Parallel()
	cmd, out := host(t, "polite")
	found := pids(t, out, "target", "launcher", "polite")
	target := watchPID(t, "target", found["target"])
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(found["launcher"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	target.ends(t, within)
}

func TestLauncherIsStopped(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.KillGrace = -1 })
	p := spawn(t, l, command("sleep", "1000"))
	w := watchPID(t, "target", p.PID())
	if err := syscall.Kill(p.LauncherPID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Errorf("kill: %v", err)
	}
	w.ends(t, within)
}
