//go:build linux

package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exchange renames the workspace and puts another one in its place, like a fresh clone.
func (w *world) exchange() (was string) {
	w.t.Helper()
	was = w.ws + ".old"
	if err := os.Rename(w.ws, was); err != nil {
		w.t.Fatal(err)
	}
	w.write("clone/.git/config", evilConfig)
	w.write("clone/.git/hooks/pre-commit", "mine")
	w.write(".codex/config.toml", "mine")
	return was
}

func (w *world) cloneStays() {
	w.t.Helper()
	for p, want := range map[string]string{"clone/.git/config": evilConfig, "clone/.git/hooks/pre-commit": "mine", ".codex/config.toml": "mine"} {
		if b, err := os.ReadFile(filepath.Join(w.ws, p)); err != nil || string(b) != want {
			w.t.Errorf("the user's %s is %q, %v", p, b, err)
		}
	}
}

// If the user renames a folder in which a session works, it is judged under its new name. What is in its place belongs to the user.
func TestUserReplacesRootDuringCommand(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"by the next command": false, "before the exchange, beside it": true, "before the exchange, there": true, "after the exchange, there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			w.write("old/.git/config", evilConfig)
			_, lines := w.session(`cd -P .; echo ready; while [ ! -e made ]; do sleep 0.01; done; mkdir -p lib/.git lib/.codex; ` + evilSettings + `; echo made; await never`)
			until(t, lines, "ready")
			if strings.HasPrefix(name, "before") {
				w.box.Killed()
			}
			was := w.exchange()
			if err := os.WriteFile(filepath.Join(was, "made"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			until(t, lines, "made")
			last := w
			if killed {
				w.box.Killed()
				last = newWorldIn(t, w)
				if strings.HasSuffix(name, "there") {
					last.ws = was
				}
			}
			if out, exit := last.sh("echo runs"); out != "runs" {
				t.Errorf("the next command: %d, %q", exit.Code, out)
			}
			if _, err := last.outside("true"); err != nil {
				t.Error(err)
			}
			if b, _ := os.ReadFile(filepath.Join(was, "lib/.git/config")); strings.Contains(string(b), "fsmonitor") {
				t.Errorf("settings are %q", b)
			}
			if _, err := os.Lstat(filepath.Join(was, "lib/.codex")); err == nil {
				t.Error(".codex is there")
			}
			if b, err := os.ReadFile(filepath.Join(was, "old/.git/config")); err != nil || string(b) != evilConfig {
				t.Errorf("what was there is %q, %v", b, err)
			}
			if m := last.moved(); len(m) != 2 {
				t.Errorf("moved %+v", m)
			}
			w.cloneStays()
		})
	}
}

// The same happens at once for what a session creates there.
func TestSessionInReplacedRoot(t *testing.T) {
	t.Parallel()
	w := bare(t)
	p, lines := w.session(`echo ready; while [ ! -e one ]; do sleep 0.01; done; mkdir -p lib/.git; ` + evilSettings + `; while [ ! -e two ]; do sleep 0.01; done; mkdir .codex; echo x > .codex/x; await never`)
	until(t, lines, "ready")
	w.endCall()
	was := w.exchange()
	for i, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(was, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		w.await(i + 1)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	for _, m := range w.moved() {
		if !strings.HasPrefix(m.From, was) {
			t.Errorf("moved %+v", m)
		}
	}
	if out, exit := w.sh("ls; echo runs"); out != "clone\nruns" {
		t.Errorf("the next command: %d, %q", exit.Code, out)
	}
	w.cloneStays()
}

// A removed folder has nothing left, and another one in its place belongs to the user.
func TestUserReplacesRoot(t *testing.T) {
	t.Parallel()
	w := bare(t)
	p, lines := w.session(`echo ready; await never`)
	until(t, lines, "ready")
	w.endCall()
	if err := os.RemoveAll(w.exchange()); err != nil {
		t.Fatal(err)
	}
	if out, exit := w.sh("echo runs"); out != "runs" {
		t.Errorf("the next command: %d, %q", exit.Code, out)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	w.cloneStays()
	if m := w.moved(); len(m) > 0 {
		t.Errorf("moved %+v", m)
	}
}
