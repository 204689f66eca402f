//go:build linux

package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Obstacles around a file do not keep it from being moved aside.
func TestObstaclesAgainstQuarantine(t *testing.T) {
	t.Parallel()
	const repository = `mkdir -p r/.git/hooks r/.git/objects r/.git/refs; echo ref: refs/heads/x > r/.git/HEAD; echo evil > r/.git/hooks/post-checkout; chmod +x r/.git/hooks/post-checkout; printf '[core]\n\tfsmonitor = evil\n' > r/.git/config; `
	for name, tc := range map[string]struct {
		do   string
		gone []string
	}{
		"folders that can't be written":        {repository + `chmod 555 r/.git r/.git/hooks`, []string{"r/.git/hooks/post-checkout"}},
		"folders that can only be entered":     {repository + `chmod 111 r/.git/hooks r/.git r`, []string{"r/.git/hooks/post-checkout"}},
		"settings of agents in such a folder":  {`mkdir -p d/.codex; echo evil > d/.codex/config.toml; chmod 555 d/.codex d`, []string{"d/.codex"}},
		"settings of others in such a folder":  {`mkdir -p d/.hg; echo evil > d/.hg/hgrc; chmod 555 d/.hg d`, []string{"d/.hg/hgrc"}},
		"a thousand names that are taken":      {repository + `cd r/.git/hooks; touch post-checkout.quarantined; i=2; while [ $i -le 1000 ]; do echo post-checkout.quarantined-$i; i=$((i+1)); done | xargs touch`, []string{"r/.git/hooks/post-checkout"}},
		"a name of 255 bytes":                  {repository + `mv r/.git/hooks/post-checkout r/.git/hooks/$(head -c 255 /dev/zero | tr '\0' x)`, []string{"r/.git/hooks/" + strings.Repeat("x", 255)}},
		"a name that is nearly as long":        {repository + `mv r/.git/hooks/post-checkout r/.git/hooks/$(head -c 243 /dev/zero | tr '\0' x)`, []string{"r/.git/hooks/" + strings.Repeat("x", 243)}},
		"settings that can't be read":          {repository + `chmod 0 r/.git/config`, []string{"r/.git/hooks/post-checkout"}},
		"settings in folders that can't be":    {repository + `chmod 555 r/.git r`, []string{"r/.git/hooks/post-checkout"}},
		"a hook that nobody may read":          {repository + `chmod 0 r/.git/hooks/post-checkout; chmod 511 r/.git/hooks`, []string{"r/.git/hooks/post-checkout"}},
		"the first name taken by a folder":     {repository + `mkdir r/.git/hooks/post-checkout.quarantined`, []string{"r/.git/hooks/post-checkout"}},
		"a folder that can't be removed again": {repository + `chmod 1555 r/.git/hooks`, []string{"r/.git/hooks/post-checkout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			w.removable()
			if out, exit := w.sh(tc.do); exit.Code != 0 {
				t.Fatalf("exit %d, %q", exit.Code, out)
			}
			for _, p := range tc.gone {
				if _, err := os.Lstat(filepath.Join(w.ws, p)); !os.IsNotExist(err) {
					t.Errorf("%s: %v", p, err)
				}
			}
			if strings.Contains(tc.do, "r/.git/config") {
				if b, err := os.ReadFile(filepath.Join(w.ws, "r/.git/config")); err == nil && strings.Contains(string(b), "evil") {
					t.Errorf("settings are %q", b)
				}
			}
			if len(w.moved()) == 0 {
				t.Error("nobody was told")
			}
			w.runsOn()
		})
	}
}

// Folders end up with the rights that the command has given them.
func TestRightsAreRestored(t *testing.T) {
	t.Parallel()
	w := bare(t)
	w.sh(`mkdir -p r/.codex; chmod 2555 r; chmod 2555 r/.codex`)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(w.ws, "r"), 0o755) })
	for name, want := range map[string]os.FileMode{"r": 0o555, "r/.codex.quarantined": 0o555} {
		info, err := os.Lstat(filepath.Join(w.ws, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// appendOnly makes a folder append-only, so that nothing in it can be renamed or removed. Only root can do that.
func appendOnly(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	set := func(flags int) error {
		defer f.Close()
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	const appends = 0x20 // FS_APPEND_FL
	if err := set(appends); err != nil {
		t.Skipf("no file can be made to be appended to only: %v", err)
	}
	t.Cleanup(func() { loose(path) })
}

func loose(path string) {
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
	}
}

// A file that can't be renamed is emptied. If that is impossible, no command runs until it is gone.
func TestFilesThatCannotBeMoved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		dir, do string
		refused string // the path that is named; empty: it was made harmless
	}{
		"a hook":               {"b/hooks", `mkdir b/objects b/refs; echo ref: refs/heads/x > b/HEAD; echo evil > b/hooks/post-checkout`, ""},
		"settings of an agent": {"deep", `mkdir deep/.codex; echo evil > deep/.codex/config.toml`, "deep/.codex"},
		"another's work":       {"b/hooks", `mkdir b/objects b/refs; echo ref: refs/heads/x > b/HEAD; echo work > file; ln file b/hooks/post-checkout`, "b/hooks/post-checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.lenient = true
			w.make("ws/"+tc.dir+"/", "userhome/")
			dir := filepath.Join(w.ws, tc.dir)
			appendOnly(t, dir)
			if out, exit := w.sh(tc.do); exit.Code != 0 {
				t.Fatalf("exit %d, %q", exit.Code, out)
			}
			if tc.refused == "" {
				info, err := os.Lstat(filepath.Join(dir, "post-checkout"))
				if err != nil || info.Size() != 0 || info.Mode().Perm() != 0 {
					t.Errorf("%v, %v", info, err)
				}
				w.runsOn()
				return
			}
			for range 2 {
				if _, err := w.spawn("echo runs"); err == nil || !strings.Contains(err.Error(), filepath.Join(w.ws, tc.refused)) || !strings.Contains(err.Error(), "remove it") {
					t.Errorf("the next command: %v", err)
				}
			}
			if b, err := os.ReadFile(filepath.Join(w.ws, "file")); err == nil && string(b) != "work\n" {
				t.Errorf("the work is %q", b)
			}
			loose(dir)
			if name == "another's work" { // whoever looks after it removes it
				if err := os.Remove(filepath.Join(w.ws, tc.refused)); err != nil {
					t.Error(err)
				}
			}
			w.runsOn()
			if _, err := os.Lstat(filepath.Join(w.ws, tc.refused)); err == nil {
				t.Error("it is there")
			}
		})
	}
}
