package workbench_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/workbench"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

// launcherPath builds gantry-launch, once.
var launcherPath = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(dirEnv), "gantry-launch")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../../cmd/gantry-launch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build gantry-launch: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gantry-workbench-test-")
	if err != nil {
		panic(err)
	}
	os.Setenv(dirEnv, dir)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// dirEnv is the folder for what tests build.
const dirEnv = "GANTRY_TEST_WORKBENCH"

// world is a machine with a client: a user's home folder with keys, gantry's own folder, and a repository to work in.
type world struct {
	t        testing.TB
	top      string // without symbolic links, not in /tmp, of which sandboxes have their own
	cfg      *config.Config
	bench    *workbench.Bench
	ws       *workbench.Workspace
	launcher *launch.Launcher

	mu    sync.Mutex
	notes []note
	heard chan struct{} // has an element after a notification
}

// note is a notification.
type note struct {
	method string
	params any
}

// in returns a path in the world.
func (w *world) in(path string) string { return filepath.Join(w.top, path) }

// commands returns a world with a launcher.
func commands(t testing.TB, mode string) *world {
	t.Helper()
	path, err := launcherPath()
	if err != nil {
		t.Fatal(err)
	}
	return makeWorld(t, mode, path)
}

// newWorld returns a world whose workspace has a sandbox mode, and where no command can run.
func newWorld(t testing.TB, mode string) *world {
	t.Helper()
	return makeWorld(t, mode, "")
}

func makeWorld(t testing.TB, mode, launcher string) *world {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "gantry-workbench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	if top, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, top: top, heard: make(chan struct{}, 1)}
	for path, text := range map[string]string{
		"home/.ssh/id": "key", "home/notes": "note", "gantry/gantry.hcl": "", "ws/a.txt": "a", "ws/sub/b.txt": "b", "ws/secret.env": "s",
		"ws/.git/HEAD": "ref: refs/heads/main\n", "ws/.git/hooks/pre-commit": "old", "ws/.git/config": "", "ws/.git/objects/x": "", "ws/.git/refs/x": "",
		"ws/.gantry/gantry.hcl": "", "out/c.txt": "c",
	} {
		w.write(path, text)
	}
	w.cfg = &config.Config{Dir: w.in("ws"), Home: w.in("gantry")}
	w.cfg.Sandbox.Mode, w.cfg.Sandbox.DenyRead = mode, []string{"**/*.env"}
	environ := []string{"HOME=" + w.in("home"), "PATH=" + os.Getenv("PATH"), "LANG=C"}
	sandbox := grants.NewBox(w.cfg.Home, environ, nil, nil, nil)
	w.cfg.Environment.Inherit = "all"
	ws := &workbench.Workspace{
		Dir: w.cfg.Dir, Config: w.cfg, Environ: grants.NewEnviron(w.cfg, environ), Box: sandbox,
		Check: func(context.Context, string, string) error { return nil },
	}
	ws.Granter = grants.Granter{Config: w.cfg, Home: w.cfg.Home, Environ: environ, Tmp: func() (string, error) {
		return w.in("tmp"), os.MkdirAll(w.in("tmp"), 0o700)
	}}
	w.ws = ws
	if launcher != "" {
		if w.launcher, err = launch.New(launch.Config{
			LauncherPath: launcher, Confiners: []launch.Confiner{launch.Unconfined{}, sandbox}, CgroupDir: "none",
		}); err != nil {
			t.Fatal(err)
		}
		ws.Granter.Launcher, ws.Runner = w.launcher, workbench.Launch(w.launcher)
	}
	w.bench = workbench.New(workbench.Config{
		Notify: w.notify, Workspaces: func() []*workbench.Workspace { return []*workbench.Workspace{ws} },
		Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() {
		w.bench.Close()
		if w.launcher != nil {
			if err := w.launcher.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *world) notify(method string, params any) {
	w.mu.Lock()
	w.notes = append(w.notes, note{method, params})
	w.mu.Unlock()
	select {
	case w.heard <- struct{}{}:
	default:
	}
}

// told returns the notifications so far.
func (w *world) told() []note {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]note(nil), w.notes...)
}

// await waits until a notification satisfies a test, and returns it.
func (w *world) await(match func(note) bool) note {
	w.t.Helper()
	for {
		for _, n := range w.told() {
			if match(n) {
				return n
			}
		}
		<-w.heard
	}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.in(path)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.in(path), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(path string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.in(path))
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b)
}

func coded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// fails checks the code of an error, and its text. Code 0: there must be no error.
func fails(t testing.TB, name string, err error, code int64, text string) {
	t.Helper()
	if code == 0 {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	e, ok := errors.AsType[*rpc.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("%s: %v (%T), want %d with %q", name, err, err, code, text)
	}
}
