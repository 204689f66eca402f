//go:build linux

package box_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// launcherPath is the path of gantry-launch.
var launcherPath string

// programsEnv names the folder with gantry-launch and this test, if they are built already.
const programsEnv = "GANTRY_TEST_PROGRAMS"

func TestMain(m *testing.M) {
	if given := os.Getenv(programsEnv); given != "" { // another user's run of the same tests
		launcherPath = filepath.Join(given, "gantry-launch")
		goleak.VerifyTestMain(m)
		return
	}
	dir, err := os.MkdirTemp("/var/tmp", "gantry-box-test") // the machine's /tmp is not seen in a box
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	launcherPath = filepath.Join(dir, "gantry-launch")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", launcherPath, "../../../cmd/gantry-launch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build gantry-launch: %v\n%s", err, out)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	if err := copyProgram("/proc/self/exe", filepath.Join(dir, "box.test")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func copyProgram(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// world is a workspace with a sandbox and a launcher.
type world struct {
	t                  testing.TB
	home, ws, out, tmp string
	launcher           *launch.Launcher
	mode               string
	network, proxied   bool
	change             func(*launch.Grant) // nil: nothing
	programs           []string            // plugins' own; the first starts scripts

	lenient bool // what could not be moved aside is no failure

	box  *box.Sandbox
	late func(func([]control.Cover) error) func() // of a plugin's cage; nil: nothing

	mu     sync.Mutex
	aside  []box.Moved
	heard  chan struct{} // holds one when something was moved aside
	failed []error
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, launch.Config{})
}

// newWorldWith returns a world whose launcher has further configuration.
func newWorldWith(t testing.TB, cfg launch.Config) *world {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "gantry-box-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	w := &world{t: t, mode: box.WorkspaceWrite, heard: make(chan struct{}, 1)}
	for name, p := range map[string]*string{"home": &w.home, "ws": &w.ws, "out": &w.out, "tmp": &w.tmp} {
		*p = filepath.Join(top, name)
		if err := os.Mkdir(*p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.open(cfg)
	return w
}

// newWorldIn returns a second host on the folders of a world.
func newWorldIn(t testing.TB, of *world) *world {
	t.Helper()
	w := &world{t: t, mode: of.mode, home: of.home, ws: of.ws, out: of.out, tmp: of.tmp, heard: make(chan struct{}, 1)}
	w.open(launch.Config{})
	return w
}

// open gives a world its launcher.
func (w *world) open(cfg launch.Config) {
	t := w.t
	t.Helper()
	cfg.LauncherPath = launcherPath
	w.box = box.New(box.Config{Home: w.home, UserHome: filepath.Join(filepath.Dir(w.ws), "userhome"), Moved: w.hear, Programs: func() []string { return w.programs }})
	cfg.Confiners = []launch.Confiner{launch.Unconfined{}, w.box}
	var err error
	w.launcher, err = launch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.launcher.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// spawn starts a script in the sandbox.
func (w *world) spawn(script string) (*launch.Process, error) {
	return w.launcher.Spawn(w.t.Context(), w.spec(script))
}

func (w *world) spec(script string) launch.Spec {
	s := launch.Spec{
		Argv: []string{"/bin/sh", "-c", script}, Cwd: w.ws, MergeStderr: true,
		Env:   []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "WS=" + w.ws, "OUT=" + w.out, "HOME=" + w.out},
		Grant: launch.Grant{Mode: w.mode, WritableRoots: []string{w.ws}, Network: w.network, Proxied: w.proxied, Tmp: w.tmp},
		Owner: launch.Owner{Plugin: "shell", Thread: "thread", Call: "call"},
	}
	if len(w.programs) > 0 {
		s.Argv[0] = w.programs[0]
	}
	if w.change != nil {
		w.change(&s.Grant)
	}
	return s
}

// sh runs a script in the sandbox and returns its output and how it ended.
func (w *world) sh(script string) (string, launch.Exit) {
	w.t.Helper()
	p, err := w.spawn(script)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.result(p)
}

// result waits for the end of a process.
func (w *world) result(p *launch.Process) (string, launch.Exit) {
	w.t.Helper()
	var out strings.Builder
	if _, err := p.Attach(w.t.Context(), nil, func(o launch.Output) error {
		out.Write(o.Data)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	exit, err := p.Wait(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	<-p.Gone() // what it has made is judged by then
	return strings.TrimSpace(out.String()), exit
}

// The kernel treats root and other users differently in much of this, so root's tests are run again as another user.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is one already")
	}
	t.Parallel()
	const nobody = 65534
	dir := filepath.Dir(launcherPath)
	// Limits of a tree need a control group that was handed over to the user.
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "box.test"), "-test.skip", "^TestLimitsInABox$")
	cmd.Dir = "/"
	// Folders of root's in PATH would turn "not found" into "permission denied".
	cmd.Env = append(os.Environ(), programsEnv+"="+dir, "HOME=/nonexistent", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "no tests to run") || !strings.Contains(text, "PASS") {
		t.Errorf("%v\n%s", err, text)
	}
}
