//go:build linux

package box_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// removable removes the workspace after the test, whatever its folders' rights and however deep it is.
func (w *world) removable() {
	w.t.Cleanup(func() {
		_ = filepath.WalkDir(w.ws, func(p string, e fs.DirEntry, err error) error {
			if e != nil && e.IsDir() {
				_ = os.Chmod(p, 0o755)
			}
			return nil
		})
		_ = exec.Command("rm", "-rf", w.ws).Run()
	})
}

// between runs a script, and act as somebody else while it is running.
func (w *world) between(act func() error, script string) {
	w.t.Helper()
	spec := w.spec("echo ready; read line; " + script + "; echo done")
	spec.Stdin = true
	p, err := w.launcher.Spawn(w.t.Context(), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	in := make(chan launch.Input, 1)
	said := ""
	if _, err := p.Attach(w.t.Context(), in, func(o launch.Output) error {
		if said += string(o.Data); said == "ready\n" {
			if err := act(); err != nil {
				return err
			}
			in <- launch.Input{Data: []byte("\n")}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	close(in)
	<-p.Gone()
	if !strings.HasSuffix(said, "done\n") {
		w.t.Fatalf("%q", said)
	}
}

// runsOn checks that the next command runs.
func (w *world) runsOn() {
	w.t.Helper()
	if out, exit := w.sh("echo runs"); out != "runs" || exit.Code != 0 {
		w.t.Errorf("the next command: %d, %q", exit.Code, out)
	}
}
