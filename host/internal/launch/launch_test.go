//go:build linux

package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

func TestOutputAndExit(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for _, tc := range []struct {
		name, script   string
		merge          bool
		stdout, stderr string
		code           int
		signal         syscall.Signal
	}{
		{name: "nothing", script: "true"},
		{name: "text", script: "printf abc", stdout: "abc"},
		{name: "code", script: "echo out; echo err 1>&2; exit 3", stdout: "out\n", stderr: "err\n", code: 3},
		{name: "merged in the order of writing", script: "echo a; echo b 1>&2; echo c; echo d 1>&2", merge: true, stdout: "a\nb\nc\nd\n"},
		{name: "killed by itself", script: "kill -9 $$", code: 137, signal: syscall.SIGKILL},
		{name: "interrupted", script: "kill -INT $$", code: 130, signal: syscall.SIGINT},
		{name: "stdin is empty", script: "cat; echo end", stdout: "end\n"},
		{name: "stdin is the null device", script: "readlink /proc/self/fd/0", stdout: "/dev/null\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := script(tc.script)
			s.MergeStderr = tc.merge
			stdout, stderr, exit := run(t, l, s)
			if stdout != tc.stdout || stderr != tc.stderr {
				t.Errorf("wrote %q and %q, want %q and %q", stdout, stderr, tc.stdout, tc.stderr)
			}
			if exit.Code != tc.code || exit.Signal != tc.signal || exit.Lost {
				t.Errorf("exit %+v, want code %d, signal %d", exit, tc.code, tc.signal)
			}
		})
	}
}

func TestUsageOfTheTarget(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	_, _, exit := run(t, l, script(`i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`))
	if exit.User+exit.System <= 0 {
		t.Errorf("processor time %v + %v, want some", exit.User, exit.System)
	}
	if exit.MaxRSS < 100<<10 || exit.MaxRSS > 1<<30 {
		t.Errorf("%d bytes at most, want that of a shell", exit.MaxRSS)
	}
}

func TestEnvironmentAndFolder(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := command("env")
	s.Env = []string{"A=first", "PATH=" + os.Getenv("PATH"), "A=last", "B="}
	stdout, _, _ := run(t, l, s)
	if want := "PATH=" + os.Getenv("PATH") + "\nA=last\nB=\n"; stdout != want {
		t.Errorf("environment %q, want %q", stdout, want)
	}
	s = script("pwd -P")
	s.Cwd = t.TempDir()
	want, err := filepath.EvalSymlinks(s.Cwd)
	if err != nil {
		t.Fatal(err)
	}
	if stdout, _, _ := run(t, l, s); stdout != want+"\n" {
		t.Errorf("folder %q, want %q", stdout, want)
	}
}

func TestProgramIsSearchedInPathOfTheTarget(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bin", "prog"), "#!/bin/sh\necho found\n", 0o755)
	write(t, filepath.Join(dir, "plain", "prog"), "#!/bin/sh\necho wrong\n", 0o644)
	for _, tc := range []struct{ name, program, path, want string }{
		{"absolute entry", "prog", dir + "/bin", "found\n"},
		{"what can't be executed is passed over", "prog", dir + "/plain:" + dir + "/none:" + dir + "/bin", "found\n"},
		{"entry relative to the folder", "prog", "bin", "found\n"},
		{"program relative to the folder", "bin/prog", "", "found\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := command(tc.program)
			s.Cwd, s.Env = dir, []string{"PATH=" + tc.path}
			if got, _, _ := run(t, l, s); got != tc.want {
				t.Errorf("wrote %q, want %q", got, tc.want)
			}
		})
	}
}

func TestStartErrorsHaveSystemText(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plain"), "text", 0o644)
	write(t, filepath.Join(dir, "garbage"), "\x01\x02\x03 no program", 0o755)
	write(t, filepath.Join(dir, "lost"), "#!/no/such/interpreter\n", 0o755)
	for _, tc := range []struct {
		name    string
		change  func(*launch.Spec)
		op      string
		errno   syscall.Errno
		message string
	}{
		{"program that is not in PATH", func(s *launch.Spec) { s.Argv[0] = "no-such-program" }, "exec", syscall.ENOENT, "No such file or directory"},
		{"empty name", func(s *launch.Spec) { s.Argv[0] = "" }, "exec", syscall.ENOENT, "No such file or directory"},
		{"program by path", func(s *launch.Spec) { s.Argv[0] = dir + "/none" }, "exec", syscall.ENOENT, "No such file or directory"},
		{"interpreter", func(s *launch.Spec) { s.Argv[0] = dir + "/lost" }, "exec", syscall.ENOENT, "No such file or directory"},
		{"not executable", func(s *launch.Spec) { s.Argv[0] = dir + "/plain" }, "exec", syscall.EACCES, "Permission denied"},
		{"not executable in PATH", func(s *launch.Spec) { s.Argv[0], s.Env = "plain", []string{"PATH=" + dir} }, "exec", syscall.EACCES, "Permission denied"},
		{"a folder", func(s *launch.Spec) { s.Argv[0] = dir }, "exec", syscall.EACCES, "Permission denied"},
		{"no program", func(s *launch.Spec) { s.Argv[0] = dir + "/garbage" }, "exec", syscall.ENOEXEC, "Exec format error"},
		{"argument too long", func(s *launch.Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 1<<20)) }, "exec", syscall.E2BIG, "Argument list too long"},
		{"arguments beyond all bounds", func(s *launch.Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 16<<20)) }, "exec", syscall.E2BIG, "Argument list too long"},
		{"zero byte", func(s *launch.Spec) { s.Argv = append(s.Argv, "a\x00b") }, "exec", syscall.EINVAL, "Invalid argument"},
		{"no arguments", func(s *launch.Spec) { s.Argv = nil }, "exec", syscall.EINVAL, "Invalid argument"},
		{"folder that is not there", func(s *launch.Spec) { s.Cwd = dir + "/none" }, "chdir", syscall.ENOENT, "No such file or directory"},
		{"folder that is a file", func(s *launch.Spec) { s.Cwd = dir + "/plain" }, "chdir", syscall.ENOTDIR, "Not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, limits := range []launch.Limits{{}, {OpenFiles: 100}} { // with and without the second stage
				s := command("true")
				s.Grant.Limits = limits
				tc.change(&s)
				_, err := l.Spawn(t.Context(), s)
				e, ok := errors.AsType[*launch.StartError](err)
				if !ok {
					t.Fatalf("error %v, want a StartError", err)
				}
				if e.Op != tc.op || e.Errno != tc.errno || e.Message != tc.message || e.Denied {
					t.Errorf("error %+v, want %s, %d, %q", e, tc.op, tc.errno, tc.message)
				}
				if got := errors.Is(err, fs.ErrNotExist); got != (tc.errno == syscall.ENOENT) {
					t.Errorf("is fs.ErrNotExist: %v", got)
				}
			}
		})
	}
	if n := l.Count(); n != 0 {
		t.Errorf("%d processes are counted after failed starts", n)
	}
	s := command("true")
	s.Cwd = "relative"
	if _, err := l.Spawn(t.Context(), s); err == nil || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("relative folder: %v", err)
	}
}

func TestNoDescriptorLeaksIntoTheTarget(t *testing.T) {
	// A descriptor without close-on-exec, as if the host had inherited it from its parent.
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	l := newLauncher(t)
	for _, limits := range []launch.Limits{{}, {OpenFiles: 100}} {
		for _, terminal := range []*launch.Size{nil, {}} {
			s := script("echo ready; read line")
			s.Stdin, s.Terminal, s.Grant.Limits = true, terminal, limits
			p := spawn(t, l, s)
			line := make([]byte, 5)
			if _, err := background(t, p).Read(line); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
				info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", p.PID(), e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				var flags int64
				for line := range strings.Lines(string(info)) {
					if v, ok := strings.CutPrefix(line, "flags:"); ok {
						fmt.Sscanf(strings.TrimSpace(v), "%o", &flags)
					}
				}
				if flags&syscall.O_NONBLOCK != 0 {
					t.Errorf("descriptor %s of the target does not block", e.Name())
				}
			}
			// dash keeps a copy of its terminal as 10; nothing of ours.
			if got := strings.Join(names, " "); got != "0 1 2" && !(terminal != nil && got == "0 1 10 2") {
				t.Errorf("descriptors %s, want 0 1 2 (terminal %v, limits %v)", got, terminal != nil, limits)
			}
			monitor, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.LauncherPID()))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range monitor {
				to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.LauncherPID(), e.Name()))
				if !strings.HasPrefix(to, "socket:") && to != "anon_inode:[eventfd]" {
					t.Errorf("the launcher holds %s", to)
				}
			}
			if err := p.KillTree(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOwnSessionAndGroup(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, command("sleep", "1000"))
	sid, err := syscall.Getpgid(p.PID())
	if err != nil || sid != p.PID() {
		t.Errorf("process group %d, %v, want %d", sid, err, p.PID())
	}
	if got, _, _ := syscall.Syscall(syscall.SYS_GETSID, uintptr(p.PID()), 0, 0); int(got) != p.PID() {
		t.Errorf("session %d, want %d", got, p.PID())
	}
}

func TestMaxProcesses(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, func(c *launch.Config) { c.MaxProcesses = 2 })
	spawn(t, l, command("sleep", "1000"))
	first := spawn(t, l, command("sleep", "1000"))
	_, err := l.Spawn(t.Context(), command("true"))
	if e, ok := errors.AsType[*launch.StartError](err); !ok || e.Errno != syscall.EAGAIN || !errors.Is(err, launch.ErrTooMany) {
		t.Fatalf("third of two: %v", err)
	}
	if err := l.EndCall(t.Context(), first.Owner()); err != nil {
		t.Fatal(err)
	}
	spawn(t, l, command("sleep", "1000"))
	// Processes with unread output count as well, until their call has ended.
	p := spawn(t, l, command("true"))
	<-p.Gone()
	if _, err := l.Spawn(t.Context(), command("true")); !errors.Is(err, launch.ErrTooMany) {
		t.Errorf("in place of an unread one: %v", err)
	}
	if err := l.EndCall(t.Context(), p.Owner()); err != nil {
		t.Fatal(err)
	}
	if n := l.Count(); n != 0 {
		t.Errorf("%d processes are held after their call", n)
	}
}

func TestTwoHundredConcurrentProcesses(t *testing.T) {
	before := openFDs(t)
	l := newLauncher(t)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			out, _, exit := run(t, l, script(fmt.Sprintf("echo %d; exit %d", i, i%7)))
			if out != fmt.Sprintf("%d\n", i) || exit.Code != i%7 {
				t.Errorf("process %d wrote %q and ended with %d", i, out, exit.Code)
			}
		})
	}
	wg.Wait()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestCancelledSpawnLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	cause := errors.New("changed my mind")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := l.Spawn(ended, command("sleep", "1000")); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	// Cancel in the middle of the start.
	var wg sync.WaitGroup
	for range 50 {
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() { cancel(cause) })
		wg.Go(func() {
			p, err := l.Spawn(ctx, command("sleep", "1000"))
			if err == nil {
				err = p.KillTree(t.Context())
				p.Forget()
			} else if errors.Is(err, cause) {
				err = nil
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := l.Count(); n != 0 {
		t.Errorf("%d processes are alive", n)
	}
}

func TestLauncherThatNeverResponds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mute"), "#!/bin/sh\necho >"+dir+"/up; exec cat >/dev/null 2>&1\n", 0o755)
	if err := syscall.Mkfifo(filepath.Join(dir, "up"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLauncher(t, func(c *launch.Config) { c.LauncherPath = filepath.Join(dir, "mute") })
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no patience")
	var wg sync.WaitGroup
	wg.Go(func() {
		os.ReadFile(filepath.Join(dir, "up")) // returns when it is up
		cancel(cause)
	})
	if _, err := l.Spawn(ctx, command("true")); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	wg.Wait()
}

func TestLauncherThatCrashes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tc := range []struct{ name, text, want string }{
		{"with last words", "#!/bin/sh\necho 'fatal error: out of threads' 1>&2; exit 2\n", "exit status 2: fatal error: out of threads"},
		{"with few last words", "#!/bin/sh\necho no; exit 2\n", "exit status 2: no\n"},
		{"in silence", "#!/bin/sh\nexit 4\n", "ended before it started the process: exit status 4"},
		{"with half a frame", "#!/bin/sh\nprintf '\\300\\001'\n", "ended before it started the process"},
		{"with a frame that is none", "#!/bin/sh\nprintf '\\300\\001\\000\\000\\000\\377'\n", "ended before it started the process"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tc.name, " ", "-"))
			write(t, path, tc.text, 0o755)
			l := newLauncher(t, func(c *launch.Config) { c.LauncherPath = path })
			if _, err := l.Spawn(t.Context(), command("true")); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestNewChecksConfig(t *testing.T) {
	t.Parallel()
	if _, err := launch.New(launch.Config{LauncherPath: "/no/such/launcher"}); err == nil || !strings.Contains(err.Error(), "/no/such/launcher is missing") {
		t.Errorf("missing launcher: %v", err)
	}
	if _, err := launch.New(launch.Config{LauncherPath: os.Getenv(launcherEnv), MaxProcesses: -1}); err == nil {
		t.Error("a negative bound was accepted")
	}
}

func TestSpawnAfterClose(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, command("sleep", "1000"))
	w := watchPID(t, "sleep", p.PID())
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ends(t, within)
	if _, err := l.Spawn(t.Context(), command("true")); !errors.Is(err, launch.ErrClosed) {
		t.Errorf("spawn after close: %v", err)
	}
	if _, ok := l.Process(p.ID()); ok {
		t.Error("the process is known after close")
	}
}

func TestEndedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	var first, last *launch.Process
	for i := range launch.MaxEnded + 1 {
		s := command("true")
		s.Session = true
		last = spawn(t, l, s)
		if _, err := last.Attach(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		<-last.Gone()
		if i == 0 {
			first = last
		}
	}
	if _, ok := l.Process(last.ID()); !ok {
		t.Error("the latest has been forgotten")
	}
	if _, ok := l.Process(first.ID()); ok {
		t.Error("the oldest has not been forgotten")
	}
	last.Release()
	if _, ok := l.Process(last.ID()); ok {
		t.Error("the released one has not been forgotten")
	}
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// Prevent forks meanwhile: a child that has the file open for writing would make its execution fail with ETXTBSY.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
