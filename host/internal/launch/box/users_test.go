//go:build linux

package box_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

const evilConfig = "[core]\n\tfsmonitor = mine\n"

// untouched are commands by which existing files become something that git or another program executes.
var untouched = map[string]struct {
	there     []string // the user's files; those called config have settings that name a program
	links     map[string]string
	settings  string // of the repository of the workspace
	denyWrite []string
	do        string
	gone      []string // what the command has made and must not stay
	moves     bool     // the command itself moves files of the user's: only their content counts
}{
	"a denied folder becomes a repository": {
		there: []string{"lib/hooks/pre-commit", "lib/config"}, denyWrite: []string{"lib/hooks", "lib/config"},
		do: `mkdir lib/objects lib/refs; echo ref: refs/heads/x > lib/HEAD`, gone: []string{"lib/HEAD"},
	},
	"the user's folder becomes a repository": {
		there: []string{"lib/hooks/pre-commit", "lib/config"}, do: `mkdir lib/objects lib/refs; echo ref: refs/heads/x > lib/HEAD`, gone: []string{"lib/HEAD"},
	},
	"HEAD is there": {
		there: []string{"lib/hooks/pre-commit", "lib/config", "lib/HEAD", "lib/objects/x"}, do: `echo > lib/objects/y; mkdir lib/refs`, gone: []string{"lib/refs"},
	},
	"only the other shape is new": {
		there: []string{"lib/hooks/pre-commit", "lib/HEAD", "repo/x"}, do: `echo ../repo > lib/commondir`, gone: []string{"lib/commondir"},
	},
	"the repository that a worktree belongs to": {
		there: []string{"lib/hooks/pre-commit", "lib/config", "tree/HEAD"}, do: `echo ../lib > tree/commondir`, gone: []string{"tree/commondir"},
	},
	"a file that says where the repository is": {
		there: []string{"lib/hooks/pre-commit", "lib/config"}, do: `mkdir x; echo 'gitdir: ../lib' > x/.git`, gone: []string{"x/.git"},
	},
	"a link to the repository": {
		there: []string{"lib/hooks/pre-commit", "lib/config"}, do: `mkdir x; ln -s ../lib x/.git`, gone: []string{"x/.git"},
	},
	"a link among hooks": {
		there: []string{"lib/run"}, do: `mkdir -p x/.git/hooks x/.git/objects x/.git/refs; echo ref: refs/heads/x > x/.git/HEAD; ln -s ../../../lib/run x/.git/hooks/pre-commit; chmod +x lib/run`, gone: []string{"x/.git/hooks/pre-commit"},
	},
	"a link to hooks": {
		there: []string{"lib/run"}, do: `mkdir -p x/.git/objects x/.git/refs; echo ref: refs/heads/x > x/.git/HEAD; ln -s ../../lib x/.git/hooks`, gone: []string{"x/.git/hooks"},
	},
	"Mercurial's folder": {
		there: []string{"lib/hgrc"}, do: `mkdir x; ln -s ../lib x/.hg`, gone: []string{"x/.hg"},
	},
	"a folder in that of Darcs": {
		there: []string{"lib/defaults"}, do: `mkdir -p x/_darcs; ln -s ../../lib x/_darcs/prefs`, gone: []string{"x/_darcs/prefs"},
	},
	"a link on the way to hooks that settings name": {
		there: []string{"lib/hooks/pre-commit", "vendor/hooks/pre-commit"}, links: map[string]string{"tools": "lib"}, settings: "[core]\n\thooksPath = tools/hooks\n", denyWrite: []string{"vendor"},
		do: `rm tools; ln -s vendor tools`, gone: []string{"tools"},
	},
	"a link on the way to a program that settings name": {
		there: []string{"lib/run", "vendor/run"}, links: map[string]string{"tools": "lib"}, settings: "[core]\n\tfsmonitor = tools/run\n",
		do: `ln -s vendor y; ln -sfn y tools; touch vendor/run`, gone: []string{"tools"},
	},
	"settings that are included": {
		there: []string{"lib/config", "vendor/config"}, links: map[string]string{"tools": "lib"}, settings: "[include]\n\tpath = ../tools/config\n", denyWrite: []string{"vendor/config"},
		do: `ln -sfn vendor tools`, gone: []string{"tools"},
	},
	"hooks that are moved into a repository": {
		there: []string{"lib/pre-commit"}, do: `mkdir -p x/.git/objects x/.git/refs; echo ref: refs/heads/x > x/.git/HEAD; mv lib x/.git/hooks`, gone: []string{"x/.git/hooks"}, moves: true,
	},
	"a denied file in hooks that are moved": {
		there: []string{"lib/keep"}, denyWrite: []string{"**/keep"}, do: `mkdir -p x/.git/objects x/.git/refs; echo ref: refs/heads/x > x/.git/HEAD; mv lib x/.git/hooks`, gone: []string{"x/.git/hooks"}, moves: true,
	},
	"a folder that is renamed to a repository": {
		there: []string{"lib/hooks/pre-commit", "lib/config"}, do: `mkdir x; mv lib x/.git`, gone: []string{"x/.git"}, moves: true,
	},
}

// old waits until everything in the workspace is older than the granularity of the file clock.
func (w *world) old() {
	w.t.Helper()
	for made := time.Now(); time.Since(made) < 100*time.Millisecond; {
		w.sh("true")
	}
}

// Files that existed before, or are denied, are never changed because of a command's work: what the command has added is moved
// aside.
func TestExistingFilesAreNotQuarantined(t *testing.T) {
	t.Parallel()
	for name, tc := range untouched {
		for _, killed := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/killed"}[killed], func(t *testing.T) {
				t.Parallel()
				w := configured(t, tc.settings, "")
				text := func(p string) string {
					if filepath.Base(p) == "config" {
						return evilConfig
					}
					return "mine: " + p
				}
				for _, p := range tc.there {
					w.write(p, text(p))
				}
				for link, to := range tc.links {
					if err := os.Symlink(to, filepath.Join(w.ws, link)); err != nil {
						t.Fatal(err)
					}
				}
				w.change = func(g *launch.Grant) {
					for _, d := range tc.denyWrite {
						g.DenyWrite = append(g.DenyWrite, filepath.Join(w.ws, d))
					}
				}
				w.old()
				moved, last := w.moved, w
				if killed {
					_, lines := w.session(tc.do + `; echo made; await never`)
					until(t, lines, "made")
					w.box.Killed()
					last = newWorldIn(t, w)
					moved = last.moved
					if err := last.launcher.Watch("thread", w.spec("true").Grant); err != nil {
						t.Error(err)
					}
				} else if out, exit := w.sh(tc.do); exit.Code != 0 {
					t.Fatalf("exit %d, %q", exit.Code, out)
				}
				for _, p := range tc.there {
					if b, err := os.ReadFile(filepath.Join(w.ws, p)); !tc.moves && (err != nil || string(b) != text(p)) {
						t.Errorf("%s is %q, %v", p, b, err)
					}
				}
				found := map[string]bool{}
				_ = filepath.WalkDir(w.ws, func(p string, e fs.DirEntry, _ error) error {
					if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), "mine") {
						found[filepath.Base(p)] = true
					}
					return nil
				})
				for _, p := range tc.there {
					if !found[filepath.Base(p)] {
						t.Errorf("nothing has the name and the content of %s", p)
					}
				}
				for _, p := range tc.gone {
					if _, err := os.Lstat(filepath.Join(w.ws, p)); err == nil {
						t.Errorf("%s is there, moved %+v", p, moved())
					}
				}
				if len(moved()) == 0 {
					t.Error("nothing was moved")
				}
				if out, exit := last.sh("echo runs"); out != "runs" {
					t.Errorf("the next command: %d, %q", exit.Code, out)
				}
			})
		}
	}
}
