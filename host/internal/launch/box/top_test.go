//go:build linux

package box_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// bare returns a world with an empty workspace.
func bare(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.make("userhome/")
	return w
}

// names returns what is in the workspace.
func (w *world) names() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.ws)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// While a command is running, others see in the workspace only what is in it.
func TestNoPlaceholdersInWorkspace(t *testing.T) {
	t.Parallel()
	w := bare(t)
	w.change = func(g *launch.Grant) {
		g.DenyRead, g.DenyWrite = []string{filepath.Join(w.ws, "conf/production")}, []string{filepath.Join(w.ws, "vendor")}
	}
	p, err := w.spawn("echo ready; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	<-output(t, p)
	if names := w.names(); len(names) > 0 {
		t.Errorf("while a command runs there are %q", names)
	}
	if git, err := exec.LookPath("git"); err == nil {
		if out, err := exec.Command(git, "init", "-q", w.ws).CombinedOutput(); err != nil {
			t.Errorf("the user's git init: %v, %s", err, out)
		}
	}
}

func TestRepositoryCreatedAtRoot(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	const identity = `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `
	for name, do := range map[string]string{
		"init":             identity + `git init -q . && echo x > x && git add x && git commit -qm x && git log --oneline | wc -l`,
		"init in a rest":   identity + `echo y > y; git init -q && git add -A && git commit -qm y && git log --oneline | wc -l`,
		"clone":            identity + `git init -q /tmp/r && cd /tmp/r && git commit -qm x --allow-empty && cd "$WS" && git clone -q /tmp/r . && git log --oneline | wc -l`,
		"a work tree":      identity + `git init -q /tmp/r && cd /tmp/r && git commit -qm x --allow-empty && git worktree add -q -f "$WS" 2>&1 && cd "$WS" && git log --oneline | wc -l`,
		"git that ascends": `git init -q . && mkdir sub && cd sub && git rev-parse --show-toplevel >/dev/null && echo 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			out, exit := w.sh(do)
			if exit.Code != 0 || out != "1" {
				t.Errorf("exit %d, %q", exit.Code, out)
			}
			if m := w.moved(); len(m) > 0 {
				t.Errorf("moved %+v", m)
			}
			if !slices.Contains(w.names(), ".git") {
				t.Error("it is gone")
			}
			// From the next command on it is one that was there.
			if out, exit := w.sh(`f=.git; [ -d $f ] && f=.git/config; echo evil > $f`); exit.Code == 0 || !strings.Contains(out, "Read-only") {
				t.Errorf("exit %d, %q", exit.Code, out)
			}
		})
	}
}

func TestRepositoryAtRootIsQuarantined(t *testing.T) {
	t.Parallel()
	w := bare(t)
	w.sh(`mkdir -p .git/hooks .git/objects/x/refs .git/objects/x/objects .git/objects/x/hooks .git/refs .git/modules/m/hooks
echo ref: refs/heads/main | tee .git/HEAD .git/modules/m/HEAD > .git/objects/x/HEAD; mkdir .git/modules/m/objects .git/modules/m/refs
echo evil | tee .git/hooks/post-checkout .git/objects/x/hooks/post-checkout > .git/modules/m/hooks/post-checkout
printf '[core]\n\tbare = false\n\tfsmonitor = evil\n' > .git/config`)
	for _, p := range []string{".git/hooks/post-checkout", ".git/objects/x/hooks/post-checkout", ".git/modules/m/hooks/post-checkout"} {
		if _, err := os.Lstat(filepath.Join(w.ws, p)); err == nil {
			t.Errorf("%s is there", p)
		}
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, ".git/config")); string(b) != "[core]\n\tbare = false\n" {
		t.Errorf("settings are %q, %v", b, err)
	}
}

// The kernel removes a mount if the file under it is removed outside. What a command then creates under a protected name is new.
func TestProtectedNameRemovedOutside(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ there, remove, do, gone string }{
		"settings":           {".codex/", ".codex", `mkdir -p .codex && echo evil > .codex/config.toml`, ".codex"},
		"agents":             {".agents/", ".agents", `mkdir -p .agents && echo evil > .agents/x`, ".agents"},
		"gantry's own":       {".gantry/", ".gantry", `mkdir -p .gantry && echo evil > .gantry/gantry.hcl`, ".gantry"},
		"a repository":       {".git/HEAD", ".git", `mkdir -p .git/hooks && echo evil > .git/hooks/post-checkout`, ".git/hooks/post-checkout"},
		"keys":               {".aws/", ".aws", `mkdir -p .aws && echo evil > .aws/config`, ".aws"},
		"further down":       {"app/.codex/", "app/.codex", `mkdir -p app/.codex && echo evil > app/.codex/config.toml`, "app/.codex"},
		"another repository": {".git/HEAD", ".git", `mkdir x && mv x .git && printf '[core]\n\tfsmonitor = evil\n' > .git/config && mkdir .git/hooks && echo evil > .git/hooks/x`, ".git/hooks/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			w.make("ws/" + tc.there)
			w.between(func() error { return os.RemoveAll(filepath.Join(w.ws, tc.remove)) }, tc.do)
			if _, err := os.Lstat(filepath.Join(w.ws, tc.gone)); err == nil {
				t.Errorf("%s is there, moved %+v", tc.gone, w.moved())
			}
		})
	}
}

// What deny_read and deny_write name and does not exist can't be created in a sandbox: it is moved aside, and denied under its new
// name.
func TestMissingDeniedFilesAreQuarantined(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ do, gone string }{
		"a file":             {`mkdir conf; echo made > conf/production`, "conf/production"},
		"a folder":           {`mkdir -p conf/production; echo made > conf/production/x`, "conf/production"},
		"a link to it":       {`mkdir conf; echo made > other; ln -s ../other conf/production`, "conf/production"},
		"a link on the way":  {`mkdir other; echo made > other/production; ln -s other conf`, "conf"},
		"what may be read":   {`echo made > kept`, "kept"},
		"by another's name":  {`mkdir -p c/production; mv c conf`, "conf/production"},
		"in the second root": {`mkdir ../out/d; echo made > ../out/d/file`, "../out/d/file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			w.change = func(g *launch.Grant) {
				g.WritableRoots = append(g.WritableRoots, w.out)
				g.DenyRead, g.DenyWrite = []string{filepath.Join(w.ws, "conf/production"), filepath.Join(w.out, "d/file")}, []string{filepath.Join(w.ws, "kept")}
			}
			if out, exit := w.sh(tc.do); exit.Code != 0 {
				t.Errorf("exit %d, %q", exit.Code, out)
			}
			if _, err := os.Lstat(filepath.Join(w.ws, tc.gone)); err == nil {
				t.Error("it is there")
			}
			m := w.moved()
			if len(m) != 1 || m[0].From != filepath.Join(w.ws, tc.gone) || m[0].To != m[0].From+".quarantined" || !strings.Contains(m[0].Why, "deny_") {
				t.Fatalf("moved %+v", m)
			}
			out, exit := w.sh(`cat "` + m[0].To + `"`)
			if info, err := os.Lstat(m[0].To); err == nil && info.Mode()&os.ModeSymlink == 0 && (exit.Code != 0 && strings.Contains(out, "Permission denied")) != (tc.gone != "kept") {
				t.Errorf("exit %d, %q", exit.Code, out)
			}
			w.runsOn()
		})
	}
}

// Placeholders that older versions have left are removed; what the user has created stays.
func TestPlaceholdersOfOlderVersionsAreRemoved(t *testing.T) {
	t.Parallel()
	w := bare(t)
	for name, mode := range map[string]os.FileMode{".git": 0o555 | os.ModeSticky, ".codex": 0o555 | os.ModeSticky, ".agents": 0o755 | os.ModeSticky, ".aws": 0o555, ".gantry": 0o555 | os.ModeSticky} {
		p := filepath.Join(w.ws, name)
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if name == ".gantry" {
			w.write(".gantry/gantry.hcl", "")
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(w.ws, ".gantry"), 0o755) })
	w.runsOn()
	if got, want := w.names(), []string{".agents", ".aws", ".gantry"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}
