//go:build linux

package box_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// output returns a process's output line by line.
func output(t testing.TB, p *launch.Process) <-chan string {
	lines := make(chan string, 100)
	done := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(done)
		defer close(lines)
		rest := ""
		_, _ = p.Attach(context.Background(), nil, func(o launch.Output) error {
			rest += string(o.Data)
			for {
				line, after, ok := strings.Cut(rest, "\n")
				if !ok {
					return nil
				}
				lines <- strings.TrimSuffix(line, "\r")
				rest = after
			}
		})
	}()
	t.Cleanup(func() {
		_ = p.KillTree(context.Background())
		<-done
	})
	return lines
}

func TestSignalsReachTarget(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	p, err := w.spawn(`trap 'echo got TERM' TERM; trap 'echo got INT; exit 7' INT; echo ready; while :; do sleep 0.01; done`)
	if err != nil {
		t.Fatal(err)
	}
	lines := output(t, p)
	for _, step := range []struct {
		want  string
		sig   syscall.Signal
		group bool
	}{{"ready", syscall.SIGTERM, false}, {"got TERM", syscall.SIGTERM, true}, {"got TERM", syscall.SIGINT, false}} {
		for got := range lines { // the shell may have something to say, too
			if got == step.want {
				break
			}
		}
		if err := p.Signal(step.sig, step.group); err != nil {
			t.Fatal(err)
		}
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v", exit, err)
	}
	<-p.Gone()
	if err := p.Signal(syscall.SIGTERM, false); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestTerminateBeforeKill(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	p, err := w.spawn(`trap 'echo ended > polite; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-output(t, p); got != "ready" {
		t.Fatal(got)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, "polite")); string(b) != "ended\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestDescendantsEndWithCommand(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	out, exit := w.sh(`trap "" HUP TERM; setsid -f sh -c 'trap "" HUP TERM; exec >/dev/null 2>&1; while :; do sleep 0.1; echo x >> alive; done'; echo started`)
	if out != "started" || exit.Code != 0 {
		t.Fatalf("%q, %+v", out, exit)
	}
	if w.launcher.Count() != 0 {
		t.Error("something is left")
	}
}

func TestSignalsDifferFromExits(t *testing.T) {
	t.Parallel()
	for do, want := range map[string]launch.Exit{
		"exit 3":      {Code: 3},
		"kill -9 $$":  {Code: 137, Signal: syscall.SIGKILL},
		"kill -11 $$": {Code: 139, Signal: syscall.SIGSEGV},
	} {
		if _, exit := prepared(t).sh(do); exit.Code != want.Code || exit.Signal != want.Signal {
			t.Errorf("%s: %+v, want %+v", do, exit, want)
		}
	}
}

// The resource usage of a sandboxed command includes all that ran in the sandbox, although the command is not our child.
func TestProcessorTimeInABox(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	const spin = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`
	p, err := w.spawn("(" + spin + ") & wait; " + spin)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait(t.Context())
	if err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	if exit.User+exit.System < 20*time.Millisecond || exit.MaxRSS < 1<<20 {
		t.Errorf("it took %v + %v and %d bytes at most", exit.User, exit.System, exit.MaxRSS)
	}
}

// Limits apply in a sandbox; its own processes do not count.
func TestLimitsInABox(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	for _, tc := range []struct {
		limits launch.Limits
		script string
		want   string
	}{
		{launch.Limits{MaxPids: 3}, `sleep 0.3 & sleep 0.3 & wait`, ""},
		{launch.Limits{MaxPids: 3}, `for i in 1 2 3 4 5 6; do setsid sleep 1000 & done; wait`, launch.LimitPids},
		{launch.Limits{MemoryBytes: 64 << 20}, `head -c 400M /dev/zero | tail -c 390M >/dev/null; kill -9 $$`, launch.LimitMemory},
		{launch.Limits{FileBytes: 1 << 20}, `head -c 5M /dev/zero >/tmp/f`, launch.LimitFile},
	} {
		s := w.spec("exec 2>/dev/null; " + tc.script)
		s.Grant.Limits = tc.limits
		p, err := w.launcher.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		exit, err := p.Wait(t.Context())
		if err != nil || exit.Limit != tc.want {
			t.Errorf("%s: %+v, %v; want limit %q", tc.script, exit, err, tc.want)
		}
	}
}

func TestTerminalInSandbox(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	spec := w.spec(`test -t 0 && test -t 1 && stty size && echo ready; read line; echo "read $line"`)
	spec.Terminal, spec.MergeStderr = &launch.Size{Rows: 30, Cols: 90}, false
	p, err := w.launcher.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	in := make(chan launch.Input)
	done := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(done)
		_, _ = p.Attach(context.Background(), in, func(o launch.Output) error {
			said <- string(o.Data)
			return nil
		})
	}()
	var all strings.Builder
	for !strings.Contains(all.String(), "ready") {
		all.WriteString(<-said)
	}
	if !strings.Contains(all.String(), "30 90") {
		t.Errorf("%q", all.String())
	}
	in <- launch.Input{Data: []byte("hello\n")}
	exit, err := p.Wait(t.Context())
	close(in)
	<-done
	close(said)
	for s := range said {
		all.WriteString(s)
	}
	if err != nil || exit.Code != 0 || !strings.Contains(all.String(), "read hello") {
		t.Errorf("%+v, %v, %q", exit, err, all.String())
	}
}

// leaky is a sandbox with a wrong mount: a folder outside of the roots is writable.
type leaky struct {
	*box.Sandbox
	leak string
}

func (l leaky) Confine(ctx context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (func(), error) {
	release, err := l.Sandbox.Confine(ctx, g, readOnly, c)
	if err == nil {
		c.Box.Args = append(c.Box.Args, "--bind-try", control.Beside+l.leak, l.leak)
	}
	return release, err
}

func TestLandlockWithoutMounts(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	l, err := launch.New(launch.Config{LauncherPath: launcherPath, Confiners: []launch.Confiner{leaky{box.New(box.Config{Home: w.home}), w.out}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	w.launcher = l
	for _, do := range []string{`echo x > $OUT/new`, `echo x > $OUT/file`, `mkdir $OUT/d`, `rm $OUT/file`, `mv $OUT/file .`, `truncate -s 0 $OUT/file`} {
		if out, exit := w.sh(do); exit.Code == 0 || !strings.Contains(out, "Permission denied") {
			t.Errorf("%s: exit %d, %q", do, exit.Code, out)
		}
	}
	if b, err := os.ReadFile(filepath.Join(w.out, "file")); string(b) != "as it was" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRejectedGrants(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, w *world, spec *launch.Spec)
		says   string
	}{
		{"a protected name that is a link", func(t *testing.T, w *world, _ *launch.Spec) {
			if err := os.Symlink(w.out, filepath.Join(w.ws, ".codex")); err != nil {
				t.Fatal(err)
			}
		}, "/.codex can't be kept read-only: it is a symbolic link"},
		{"gantry's own folder", func(_ *testing.T, w *world, s *launch.Spec) { s.Grant.WritableRoots = []string{w.home} }, "is gantry's own folder"},
		{"below gantry's own folder", func(_ *testing.T, w *world, s *launch.Spec) {
			s.Grant.WritableRoots = []string{filepath.Join(w.home, "secrets")}
		}, "is gantry's own folder"},
		{"everything", func(_ *testing.T, _ *world, s *launch.Spec) { s.Grant.WritableRoots = []string{"/"} }, "is the whole machine"},
		{"a relative root", func(_ *testing.T, _ *world, s *launch.Spec) { s.Grant.WritableRoots = []string{"ws"} }, "is not absolute"},
		{"a program that is not there", func(_ *testing.T, _ *world, s *launch.Spec) { s.Argv = []string{"no-such-program"} }, "No such file or directory"},
		{"a folder that is not there", func(_ *testing.T, w *world, s *launch.Spec) { s.Cwd = w.ws + "/none" }, "No such file or directory"},
		{"no bubblewrap", func(t *testing.T, w *world, _ *launch.Spec) {
			w.confined(t, box.New(box.Config{Helper: "/no/such/bwrap"}))
		}, "the sandbox could not be created: No such file or directory"},
		{"bubblewrap that fails", func(t *testing.T, w *world, _ *launch.Spec) {
			w.confined(t, box.New(box.Config{Helper: "/bin/false"}))
		}, "the sandbox could not be created: its helper ended without a message"},
		{"a folder that can't be mounted", func(_ *testing.T, _ *world, s *launch.Spec) { s.Grant.Tmp = "/no/such/folder" },
			"the folder for temporary files /no/such/folder has disappeared"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			spec := w.spec("echo ran > $OUT/ran")
			tc.change(t, w, &spec)
			_, err := w.launcher.Spawn(t.Context(), spec)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %q", err, tc.says)
			}
		})
	}
}

// confined replaces the world's sandbox.
func (w *world) confined(t *testing.T, c launch.Confiner) {
	t.Helper()
	l, err := launch.New(launch.Config{LauncherPath: launcherPath, Confiners: []launch.Confiner{c}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	w.launcher = l
	if b, ok := c.(*box.Sandbox); ok {
		w.box = b
	}
}

func TestWorktreeRepositoryIsProtected(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	tree := filepath.Join(w.ws, "tree")
	if err := os.MkdirAll(filepath.Join(w.ws, "store", "worktrees", "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: ../store/worktrees/tree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := w.spec(`echo x > store/worktrees/tree/HEAD; echo x > tree/.git; echo x > tree/file && cat tree/file`)
	spec.Grant.WritableRoots = []string{w.ws, tree}
	p, err := w.launcher.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range output(t, p) {
		lines = append(lines, line)
	}
	if text := strings.Join(lines, "\n"); strings.Count(text, "Read-only file system") != 2 || !strings.HasSuffix(text, "\nx") {
		t.Errorf("%s", text)
	}
}

// exchanging is a sandbox whose workspace is replaced by a link after it was examined.
type exchanging struct {
	*box.Sandbox
	ws, to string
}

func (e exchanging) Confine(ctx context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (func(), error) {
	release, err := e.Sandbox.Confine(ctx, g, readOnly, c)
	if err == nil {
		err = errors.Join(os.Rename(e.ws, e.ws+".old"), os.Symlink(e.to, e.ws))
	}
	return release, err
}

func TestReplacedWritableRoot(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.confined(t, exchanging{box.New(box.Config{Home: w.home}), w.ws, w.out})
	_, err := w.spawn("echo x > $OUT/ran")
	if err == nil {
		t.Error("it ran")
	}
	if _, err := os.Lstat(filepath.Join(w.out, "ran")); err == nil {
		t.Error("it wrote outside")
	}
}

func TestWritableRootThroughLink(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	if err := os.Symlink(w.out, filepath.Join(w.ws, "build")); err != nil {
		t.Fatal(err)
	}
	for root, says := range map[string]string{
		"build": "leads through the symbolic link", "build/file": "leads through the symbolic link", "link": "leads through the symbolic link", "none": "",
	} {
		spec := w.spec("true")
		spec.Grant.WritableRoots = append(spec.Grant.WritableRoots, filepath.Join(w.ws, root))
		p, err := w.launcher.Spawn(t.Context(), spec)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", root, err, says)
		}
		if err == nil {
			<-p.Gone()
		}
	}
	// One that nobody in a box can change may lead to the workspace.
	outer := w.ws + ".link"
	if err := os.Symlink(w.ws, outer); err != nil {
		t.Fatal(err)
	}
	spec := w.spec("echo x > x")
	spec.Grant.WritableRoots = []string{outer}
	p, err := w.launcher.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Error(exit, err)
	}
	<-p.Gone()
}
