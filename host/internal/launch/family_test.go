//go:build linux

package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// On systems where gantry-launch can't become the parent of orphans, it scans the process table. This is tested with Linux's process
// table, and with a script in place of sandbox-exec.

// scanningLauncher builds it once.
var scanningLauncher = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(os.Getenv(launcherEnv)), "gantry-launch-family")
	build := exec.Command("go", "build", "-trimpath", "-tags", "family", "-o", path, "../../cmd/gantry-launch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func newScanningLauncher(t *testing.T, change ...func(*launch.Config)) *launch.Launcher {
	t.Helper()
	path, err := scanningLauncher()
	if err != nil {
		t.Fatal(err)
	}
	return newLauncher(t, append(change, func(c *launch.Config) { c.LauncherPath = path })...)
}

func TestScanningLauncherRunsAProgram(t *testing.T) {
	t.Parallel()
	l := newScanningLauncher(t)
	s := script(`cat; echo err >&2; pwd; exit 3`)
	s.Stdin, s.Cwd = true, "/usr"
	if out, errs, exit := run(t, l, s, "in\n"); out != "in\n/usr\n" || errs != "err\n" || exit.Code != 3 || exit.Signal != 0 {
		t.Errorf("%q, %q, %+v", out, errs, exit)
	}
	s = script("ulimit -n; kill -KILL $$")
	s.Grant.Limits.OpenFiles = 64
	if out, _, exit := run(t, l, s); out != "64\n" || exit.Signal != syscall.SIGKILL || exit.Code != 137 {
		t.Errorf("%q, %+v", out, exit)
	}
	s = script("test -t 0 && test -t 1 && stty size < /dev/tty")
	s.Terminal = &launch.Size{Rows: 33, Cols: 44}
	if out, _, exit := run(t, l, s); strings.TrimSpace(out) != "33 44" || exit.Code != 0 {
		t.Errorf("on a terminal: %q, %+v", out, exit)
	}
	for want, s := range map[string]launch.Spec{
		"exec nothing-like-it: No such file or directory": command("nothing-like-it"),
		"exec /etc/passwd: Permission denied":             command("/etc/passwd"),
		"chdir /nowhere: No such file or directory":       {Argv: []string{"true"}, Cwd: "/nowhere", Env: command().Env, Grant: command().Grant},
	} {
		if _, err := l.Spawn(t.Context(), s); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestScanningLauncherPassesOnSignals(t *testing.T) {
	t.Parallel()
	l := newScanningLauncher(t)
	p := spawn(t, l, script(`trap 'echo term' TERM; (trap 'echo int $$; exit' INT; echo ready 1; while :; do sleep 0.01; done) & wait; echo gone 2; wait`))
	out := background(t, p)
	pids(t, out, "ready")
	if err := p.Signal(syscall.SIGTERM, false); err != nil {
		t.Error(err)
	}
	pids(t, out, "gone")
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Signal(syscall.SIGTERM, true); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

// children are a child, and an orphan in a session of its own; both ignore signals.
const children = `trap '' TERM HUP; sleep 1000 & echo child $!; (setsid sh -c 'trap "" TERM HUP; echo daemon $$; while :; do sleep 1000; done' &); `

func TestScanningLauncherKillsTheTree(t *testing.T) {
	t.Parallel()
	l := newScanningLauncher(t)
	p := spawn(t, l, script(children+"while :; do sleep 1000; done"))
	found := pids(t, background(t, p), "child", "daemon")
	all := []watched{watchPID(t, "target", p.PID()), watchPID(t, "child", found["child"]), watchPID(t, "daemon", found["daemon"])}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.ends(t, 0)
	}
}

// Descendants that survive the target keep the tree alive until it is killed.
func TestScanningLauncherWaitsForTheTree(t *testing.T) {
	t.Parallel()
	l := newScanningLauncher(t)
	p := spawn(t, l, script(children+"exit 4"))
	found := pids(t, background(t, p), "child", "daemon") // both may have lost it by now
	all := []watched{watchPID(t, "child", found["child"]), watchPID(t, "daemon", found["daemon"])}
	if exit := wait(t, p); exit.Code != 4 {
		t.Errorf("exit %+v", exit)
	}
	for _, w := range all {
		if !w.alive() {
			t.Errorf("%s has ended with its first", w.name)
		}
	}
	if err := p.Signal(syscall.SIGCONT, true); err != nil {
		t.Errorf("a signal to what is left of the group: %v", err)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.ends(t, 0)
	}
}

func TestScanningLauncherEndsTheTreeWithItsHost(t *testing.T) {
	t.Parallel()
	path, err := scanningLauncher()
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := host(t, "tree", launcherEnv+"="+path)
	found := pids(t, out, "target", "launcher", "child", "top")
	var all []watched
	for name, pid := range found {
		all = append(all, watchPID(t, name, pid))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		w.ends(t, within)
	}
}

// seatbelted uses a script in place of sandbox-exec, which writes its arguments to a file, one per line.
type seatbelted struct {
	launch.Unconfined
	helper string
	args   []string
}

func (s seatbelted) Confine(_ context.Context, _ launch.Grant, _ bool, c *launch.Confinement) (func(), error) {
	c.Box = &control.Box{Helper: s.helper, Args: s.args}
	return nil, nil
}

func newSeatbelted(t *testing.T, text string) (*launch.Launcher, string) {
	t.Helper()
	dir := t.TempDir()
	s := seatbelted{helper: filepath.Join(dir, "sandbox-exec"), args: []string{"-p", "(version 1)\n", "-D", `P0=/a b"(`}}
	if err := os.WriteFile(s.helper, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return newScanningLauncher(t, func(c *launch.Config) { c.Confiners = []launch.Confiner{s} }), filepath.Join(dir, "args")
}

// becoming does what sandbox-exec does: it executes the arguments after "--".
const becoming = `for a; do printf '%s|' "$a"; done > "$(dirname "$0")/args"; while [ "$1" != -- ]; do shift; done; shift; exec "$@"`

func TestScanningLauncherInASandbox(t *testing.T) {
	t.Parallel()
	l, args := newSeatbelted(t, becoming)
	s := script(`echo out; echo err >&2; exit 5`)
	if out, errs, exit := run(t, l, s); out != "out\n" || errs != "err\n" || exit.Code != 5 {
		t.Errorf("%q, %q, %+v", out, errs, exit)
	}
	path, err := scanningLauncher()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(args); err != nil || string(b) != "-p|(version 1)\n|-D|P0=/a b\"(|--|"+path+"|" {
		t.Errorf("arguments %q, %v", b, err)
	}
	if _, err := l.Spawn(t.Context(), command("nothing-like-it")); err == nil || !strings.Contains(err.Error(), "nothing-like-it: No such file") {
		t.Errorf("a program that is not there: %v", err)
	}
	// Its descendants end with it, as in every sandbox.
	s = script(children + "read x")
	s.Stdin = true
	p := spawn(t, l, s)
	found := pids(t, background(t, p), "child", "daemon")
	all := []watched{watchPID(t, "child", found["child"]), watchPID(t, "daemon", found["daemon"])}
	p.CloseStdin()
	if exit := wait(t, p); exit.Code != 1 {
		t.Errorf("exit %+v", exit)
	}
	for _, w := range all {
		w.ends(t, within)
	}
}

func TestScanningLauncherWithoutItsSandbox(t *testing.T) {
	t.Parallel()
	l, _ := newSeatbelted(t, `echo "sandbox-exec: sandbox_apply: Operation not permitted" >&2; exit 71`)
	_, err := l.Spawn(t.Context(), command("true"))
	e, ok := errors.AsType[*launch.StartError](err)
	if !ok || e.Op != "confine" || !strings.Contains(e.Message, "could not be created: sandbox_apply") || !strings.Contains(e.Message, "start it outside") {
		t.Errorf("%v", err)
	}
}

func TestSystemsWithoutSupport(t *testing.T) {
	t.Parallel()
	err := launch.NotHere("windows", launch.Grant{Mode: launch.FullAccess})
	if e, ok := errors.AsType[*launch.UnsupportedError](err); !ok || !strings.Contains(e.What, "Windows") || !strings.Contains(e.Next, "WSL 2") || e.Mode != launch.FullAccess {
		t.Errorf("%v", err)
	}
	if err := launch.NotHere("plan9", launch.Grant{}); !strings.Contains(err.Error(), "plan9") || !strings.Contains(err.Error(), "Linux or macOS") {
		t.Errorf("%v", err)
	}
	var names []string
	for _, l := range []launch.Limits{{MemoryBytes: 1}, {MaxPids: 1}, {AddressSpaceBytes: 1}, {CPUSeconds: 1, OpenFiles: 1, FileBytes: 1, NoCore: true, OutputBytes: 1}} {
		if e, ok := errors.AsType[*launch.UnsupportedError](launch.NotByRlimit("macOS", l)); ok && strings.Contains(e.Error(), "on macOS") {
			names = append(names, e.Limit)
		}
	}
	if !slices.Equal(names, []string{"memory", "pids", "address space"}) {
		t.Errorf("not enforced: %q", names)
	}
}
