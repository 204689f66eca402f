//go:build linux

package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// exchanged are commands that put a link in the place of a writable folder inside another one, or on the way to it.
var exchanged = map[string]struct {
	there []string
	roots []string
	do    string
	link  string // that must not be there afterwards
}{
	"a folder above":           {[]string{"ws/x/a/"}, []string{"x/a"}, `mv x y && ln -s y x`, "x"},
	"one that is missing":      {nil, []string{"a"}, `ln -s /etc a`, "a"},
	"missing, and a link far":  {nil, []string{"x/y/a"}, `mkdir b && ln -s b x`, "x"},
	"out of the workspace":     {[]string{"ws/x/a/"}, []string{"x/a"}, `mv x y && ln -s /etc x`, "x"},
	"a circle":                 {nil, []string{"a"}, `ln -s a a`, "a"},
	"one in one in another":    {[]string{"ws/a/x/b/"}, []string{"a", "a/x/b"}, `mv a/x a/y && ln -s y a/x`, "a/x"},
	"before a kill":            {[]string{"ws/x/a/"}, []string{"x/a"}, `mv x y && ln -s y x; echo made; await never`, "x"},
	"while a session still is": {[]string{"ws/x/a/"}, []string{"x/a"}, `mv x y && ln -s y x; echo made; await never`, "x"},
}

// A command can't stop later ones by putting a link in the place of their writable folder.
func TestLinkReplacesRoot(t *testing.T) {
	t.Parallel()
	for name, tc := range exchanged {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			w.make(tc.there...)
			w.change = func(g *launch.Grant) {
				for _, r := range tc.roots {
					g.WritableRoots = append(g.WritableRoots, filepath.Join(w.ws, r))
				}
			}
			if strings.Contains(tc.do, "await") {
				_, lines := w.session(tc.do)
				until(t, lines, "made")
				if name == "before a kill" {
					w.box.Killed()
					change := w.change
					w = newWorldIn(t, w)
					w.change = change
				}
			} else if out, exit := w.sh(tc.do); exit.Code != 0 {
				t.Fatalf("a command can't: %q", out)
			}
			if out, exit := w.sh("echo runs; echo x > file"); out != "runs" {
				t.Errorf("the next command: %d, %q", exit.Code, out)
			}
			if info, err := os.Lstat(filepath.Join(w.ws, tc.link)); err == nil && info.Mode()&os.ModeSymlink != 0 {
				t.Error("the link is there")
			}
			if m := w.moved(); len(m) != 1 || m[0].From != filepath.Join(w.ws, tc.link) || !strings.Contains(m[0].Why, "writable_roots") {
				t.Errorf("moved %+v", m)
			}
		})
	}
}

// A link of the user is refused with a next step.
func TestUserLinkReplacesRoot(t *testing.T) {
	t.Parallel()
	w := bare(t)
	w.make("ws/b/")
	if err := os.Symlink("b", filepath.Join(w.ws, "a")); err != nil {
		t.Fatal(err)
	}
	w.change = func(g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, filepath.Join(w.ws, "a")) }
	if _, err := w.spawn("true"); err == nil || !strings.Contains(err.Error(), "name "+filepath.Join(w.ws, "b")) {
		t.Errorf("%v", err)
	}
}
