//go:build linux

package box_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// What a package manager has linked from its store is unchanged in the store; other files are writable as usual.
func TestManyHardLinks(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	store := filepath.Join(w.out, "store")
	if err := os.Mkdir(store, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		from := filepath.Join(store, fmt.Sprint(i))
		w.write(fmt.Sprintf("modules/store/p%d/own", i), "x")
		if err := os.WriteFile(from, []byte("as it was"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(from, filepath.Join(w.ws, fmt.Sprintf("modules/store/p%d/index", i))); err != nil {
			t.Fatal(err)
		}
	}
	out, exit := w.sh(`for f in modules/store/*/index; do echo evil >> $f; done 2>/dev/null; echo x > modules/cache && echo x > file && echo done`)
	if out != "done" || exit.Code != 0 {
		t.Errorf("exit %d, %q", exit.Code, out)
	}
	for i := range 100 {
		if b, err := os.ReadFile(filepath.Join(store, fmt.Sprint(i))); string(b) != "as it was" || err != nil {
			t.Fatalf("%d in the store is %q, %v", i, b, err)
		}
	}
}

// A read-only file is also read-only under its other names in the workspace.
func TestHardLinkOfProtectedFile(t *testing.T) {
	t.Parallel()
	w := configured(t, "[core]\n\thooksPath = .githooks\n\tfsmonitor = tools/monitor\n[include]\n\tpath = ../shared.gitconfig\n", "")
	held := []string{".githooks/pre-commit", "tools/monitor", "shared.gitconfig", ".git/hooks/update", "nested/.git/hooks/update", "nested/.git/config", "agent/.codex/config.toml", "vendor/lib", "one"}
	w.write("nested/.git/HEAD", "ref: refs/heads/main\n")
	w.make("ws/names/", "ws/free/")
	for i, p := range held {
		w.write(p, "# as it was")
		w.link("ws/"+p, fmt.Sprintf("ws/names/%d", i))
	}
	w.write("a", "as it was")
	w.link("ws/a", "ws/names/a")
	w.change = func(g *launch.Grant) {
		g.DenyWrite = []string{filepath.Join(w.ws, "vendor"), filepath.Join(w.ws, "one")}
	}
	out, _ := w.sh(`for f in names/?; do echo evil >> $f && echo $f; done 2>/dev/null; echo x > names/new; mv names moved; for f in moved/?; do echo evil >> $f && echo $f; done 2>/dev/null`)
	if strings.Join(strings.Fields(out), " ") != "names/a" && strings.Join(strings.Fields(out), " ") != "names/a moved/a" {
		t.Errorf("written: %q", out)
	}
	for _, p := range held {
		if b, err := os.ReadFile(filepath.Join(w.ws, p)); err != nil || string(b) != "# as it was" {
			t.Errorf("%s is %q, %v", p, b, err)
		}
	}
}
