//go:build linux

package box_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// make creates files below the world's folder; a path that ends with a slash is a folder.
func (w *world) make(paths ...string) {
	w.t.Helper()
	for _, p := range paths {
		full := filepath.Join(filepath.Dir(w.ws), p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			w.t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(p, "/") {
			err = os.MkdirAll(full, 0o755)
		} else {
			err = os.WriteFile(full, []byte("SECRET "+p), 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// link gives a file another name; both are below the world's folder.
func (w *world) link(from, to string) {
	w.t.Helper()
	top := filepath.Dir(w.ws)
	if err := os.Link(filepath.Join(top, from), filepath.Join(top, to)); err != nil {
		w.t.Fatal(err)
	}
}

// guarded returns a world in which files are denied. The attempts share it, each as a command of one thread.
func guarded(t *testing.T) *world {
	w := newWorld(t)
	w.make("ws/a.env", "ws/sub/deep/b.ENV", "ws/conf/prod/key", "ws/plain", "ws/keys/one", "ws/keys/open/file", "out/secret", "out/known", "ws/vendor/lib.go", "ws/go.lock", "ws/.git/")
	for _, link := range [][2]string{{filepath.Join(w.ws, "a.env"), filepath.Join(w.ws, "other-name")}} {
		if err := os.Link(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("plain-target", filepath.Join(w.ws, "link.env")); err != nil {
		t.Fatal(err)
	}
	w.make("ws/plain-target")
	w.change = func(g *launch.Grant) {
		g.WritableRoots = append(g.WritableRoots, w.ws+"/keys/open")
		g.DenyRead = []string{w.ws + "/**/*.env", w.ws + "/conf/prod", w.ws + "/keys", w.out + "/secret", w.ws + "/later"}
		g.DenyWrite = []string{w.ws + "/vendor", w.ws + "/**/*.lock", w.ws + "/generated/code"}
	}
	return w
}

func TestDeniedFilesAreUnreadable(t *testing.T) {
	t.Parallel()
	const denied, kept = "Permission denied", "Read-only file system"
	attempts := []attempt{
		{"a file", `cat a.env`, denied},
		{"another spelling of the pattern", `cat sub/deep/b.ENV`, denied},
		{"its mode", `chmod 644 a.env`, kept},
		{"a copy", `cp a.env copy`, denied},
		{"another name", `mv a.env b`, "Device or resource busy"},
		{"removing it", `rm -f a.env`, "Device or resource busy"},
		{"a hard link", `ln a.env hard`, "Invalid cross-device link"},
		{"a hard link that was there", `cat other-name`, denied},
		{"what a link leads to", `cat link.env plain-target`, denied},
		{"writing it", `echo x > a.env`, kept},
		{"a folder", `ls conf/prod`, denied},
		{"a file in a folder", `cat conf/prod/key`, denied},
		{"the folder above under another name", `mv conf conf2`, "Device or resource busy"},
		{"a file outside of the roots", `cat $OUT/secret`, denied},
		{"a roundabout way", `cat sub/../conf/./prod/key /proc/self/root$WS/a.env`, denied},
		{"a folder that is kept", `echo x > vendor/lib.go`, kept},
		{"something new in it", `echo x > vendor/new`, kept},
		{"the folder's name", `mv vendor v2`, "Device or resource busy"},
		{"a file that is kept", `echo x >> go.lock`, kept},
	}
	w := guarded(t)
	before := w.list()
	for _, a := range attempts {
		if out, exit := w.sh(a.do); exit.Code == 0 || !strings.Contains(out, a.says) || strings.Contains(out, "SECRET") {
			t.Errorf("%s: exit %d, %q, want a failure with %q", a.name, exit.Code, out, a.says)
		}
	}
	for _, a := range []attempt{
		{"a folder opened in a denied one", `cat keys/open/file && echo x > keys/open/new && rm keys/open/new`, "SECRET ws/keys/open"},
		{"what lies beside it", `cat keys/one || true`, "No such file"},
		{"other files", `cat plain $OUT/known && echo x > new && rm new`, "SECRET out/known"},
		{"reading what is kept", `cat vendor/lib.go go.lock`, "SECRET ws/vendor"},
		{"the mode of a folder", `chmod 755 conf/prod; ls conf/prod || true`, denied},
	} {
		if out, exit := w.sh(a.do); exit.Code != 0 || !strings.Contains(out, a.says) || strings.Contains(out, "ws/keys/one\n") {
			t.Errorf("%s: exit %d, %q, want %q", a.name, exit.Code, out, a.says)
		}
	}
	if after := w.list(); after != before {
		t.Errorf("there is\n%s\nwas\n%s", after, before)
	}
	// What is made after the first box is found for the next, also in folders that were looked at.
	w.make("ws/sub/deep/new.env", "ws/fresh/x.env")
	for _, name := range []string{"sub/deep/new.env", "fresh/x.env"} {
		if out, _ := w.sh("cat " + name); !strings.Contains(out, denied) {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// A command may remove a link that a pattern matches, move the folder that it leads to, or write under another name.
func TestTargetsOfRemovedLinksStayDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("ws/dir/target", "ws/folder/key", "ws/locked", "ws/go.lock", "out/secret")
	for name, to := range map[string]string{"file.env": "dir/target", "all.env": "folder", "out.env": w.out + "/secret", "z.lock": "locked"} {
		if err := os.Symlink(to, filepath.Join(w.ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.link("ws/go.lock", "ws/alias")
	w.change = func(g *launch.Grant) {
		g.DenyRead, g.DenyWrite = []string{w.ws + "/**/*.env"}, []string{w.ws + "/**/*.lock"}
	}
	for _, do := range []string{
		`cat dir/target folder/key $OUT/secret; mv dir dir2; mv folder folder2; echo x > locked; echo x > alias`,
		`rm -f *.env z.lock; mv dir dir3; mv folder folder3; ls -a`,
		`cat dir*/target folder*/key $OUT/secret; echo x > locked; echo x >> alias; mv alias b; echo x > b`,
	} {
		if out, _ := w.sh(do); strings.Contains(out, "SECRET") {
			t.Errorf("%s: %q", do, out)
		}
	}
	for _, name := range []string{"locked", "go.lock"} {
		if b, err := os.ReadFile(filepath.Join(w.ws, name)); string(b) != "SECRET ws/"+name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if out, exit := w.sh(`echo x > file.env; for i in $(seq 300); do ln -s made$i $i.env; echo x > made$i; done; ls`); exit.Code != 0 {
		t.Errorf("exit %d, %q", exit.Code, out)
	}
}

// list returns the content of the workspace, with modes.
func (w *world) list() string {
	var b strings.Builder
	if err := filepath.Walk(w.ws, func(p string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, p, info.Mode(), info.Size())
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// An approval to run without the sandbox, or full access, leaves denied files unreadable.
func TestDeniedReadsSurviveFullAccess(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	w.mode, w.network = launch.FullAccess, true
	for _, a := range []attempt{
		{"a file", `cat a.env`, "Permission denied"},
		{"a folder", `ls conf/prod`, "Permission denied"},
		{"outside", `cat $OUT/secret`, "Permission denied"},
		{"by another process", `for p in /proc/[0-9]*; do cat $p/root$WS/a.env; done`, "Permission denied"},
		{"undoing it", `umount a.env; cat a.env`, "Permission denied"},
		{"undoing it in a namespace", `unshare -rm sh -c 'umount a.env; cat a.env'; cat a.env`, "Permission denied"},
	} {
		if out, _ := w.sh(a.do); !strings.Contains(out, a.says) || strings.Contains(out, "SECRET") {
			t.Errorf("%s: %q, want %q", a.name, out, a.says)
		}
	}
	if out, exit := w.sh(`echo x > $OUT/new && cat $OUT/new && echo x > .git/x && echo x > vendor/lib.go && cat plain`); exit.Code != 0 || !strings.Contains(out, "SECRET ws/plain") {
		t.Errorf("exit %d, %q", exit.Code, out)
	}
}

func TestOnlyReadableRootsAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("ws/file", "out/shown/file", "out/hidden/file", "ws/.git/config")
	w.change = func(g *launch.Grant) {
		g.ReadableRoots = []string{w.ws, w.out + "/shown", "/no/such/folder"}
		g.DenyRead = []string{w.out + "/shown/*.key", w.out + "/hidden"}
	}
	w.make("out/shown/x.key")
	for _, a := range []attempt{
		{"the workspace", `cat file && echo x > new && cat new`, "SECRET ws/file"},
		{"a root", `cat $OUT/shown/file`, "SECRET out/shown/file"},
		{"programs", `ls / | tr '\n' ' '; python3 -c 'print("python")' 2>/dev/null || perl -e 'print "perl"' || sh -c 'echo shell'`, "usr"},
		{"temporary files", `f=$(mktemp) && echo $f`, "/tmp/"},
		{"its own processes", `cat /proc/self/comm`, "cat"},
	} {
		if out, exit := w.sh(a.do); exit.Code != 0 || !strings.Contains(out, a.says) {
			t.Errorf("%s: exit %d, %q, want %q", a.name, exit.Code, out, a.says)
		}
	}
	for _, a := range []attempt{
		{"beside a root", `cat $OUT/hidden/file`, "No such file"},
		{"what is there", `ls $OUT/hidden`, "No such file"},
		{"denied in a root", `cat $OUT/shown/x.key`, "Permission denied"},
		{"writing into a root", `echo x > $OUT/shown/x`, "Read-only file system"},
		{"a folder at the top", `mkdir /x`, "Read-only file system"},
		{"homes", `ls /root /home`, "No such file"},
		{"a protected name", `echo x > .git/config`, "Read-only file system"},
	} {
		if out, exit := w.sh(a.do); exit.Code == 0 || !strings.Contains(out, a.says) || strings.Contains(out, "SECRET") {
			t.Errorf("%s: exit %d, %q, want a failure with %q", a.name, exit.Code, out, a.says)
		}
	}
	w.mode = box.ReadOnly
	if out, exit := w.sh(`echo x > file`); exit.Code == 0 || !strings.Contains(out, "Read-only file system") {
		t.Errorf("read-only: exit %d, %q", exit.Code, out)
	}
}

// A command does not run if a denial can't be enforced.
func TestDenialsThatCantBeEnforced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(*world)
		deny    string
		want    string
	}{
		"a pattern that can't be read": {func(*world) {}, "x", "not absolute"},
		"a link that may be changed":   {func(w *world) { os.Symlink(w.out, filepath.Join(w.ws, "link")) }, "/link/secret", "symbolic link that may be changed"},
		"a pattern through a link":     {func(w *world) { os.Symlink(w.out, filepath.Join(w.ws, "link")) }, "/link/*.key", "symbolic link that may be changed"},
		"a link to the workspace":      {func(w *world) { os.Symlink("..", filepath.Join(w.ws, "up.env")) }, "/*.env", "in which commands work"},
		"too much": {func(w *world) {
			for i := range 2001 {
				if err := os.WriteFile(fmt.Sprintf("%s/%d.env", w.ws, i), nil, 0o644); err != nil {
					w.t.Fatal(err)
				}
			}
		}, "/*.env", "2001 files and folders are denied here"},
		"something else in the place of gantry's file": {func(w *world) { w.make("home/denied", "ws/a.env") }, "/*.env", "remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.prepare(w)
			w.change = func(g *launch.Grant) {
				if g.DenyRead = []string{w.ws + tc.deny}; tc.deny == "x" {
					g.DenyRead = []string{"x"}
				}
			}
			if p, err := w.spawn("echo ran"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, %v, want %q", p, err, tc.want)
			}
		})
	}
	l, err := launch.New(launch.Config{LauncherPath: launcherPath})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check(launch.Grant{Mode: launch.FullAccess, DenyRead: []string{"/x"}}); err == nil || !strings.Contains(err.Error(), "deny_read") {
		t.Errorf("without boxes: %v", err)
	}
}

// Approving a change of one file in a read-only folder makes only that file writable.
func TestApprovalOpensOneFile(t *testing.T) {
	t.Parallel()
	files := []string{
		"vendor/lib.go", "vendor/other.go", "vendor/sub/a.go", "vendor/sub/b.go", "vendor/sub/deep/c.go", "vendor/deep/d.go",
		".git/config", ".git/hooks/pre-push", "linked/lib.go", "linked/other.go",
	}
	for name, tc := range map[string]struct {
		opened []string
		do     string
		want   map[string]string // what there is afterwards that is not what was; empty: nothing
	}{
		"a file":                {[]string{"vendor/lib.go"}, `echo new > vendor/lib.go`, map[string]string{"vendor/lib.go": "new\n"}},
		"a file further down":   {[]string{"vendor/sub/a.go"}, `echo new > vendor/sub/a.go`, map[string]string{"vendor/sub/a.go": "new\n"}},
		"a new file":            {[]string{"vendor/new.go"}, `echo new > vendor/new.go`, map[string]string{"vendor/new.go": "new\n"}},
		"in a new folder":       {[]string{"vendor/x/y/new.go"}, `mkdir -p vendor/x/y && echo new > vendor/x/y/new.go`, map[string]string{"vendor/x/y/new.go": "new\n"}},
		"removing one":          {[]string{"vendor/lib.go"}, `rm vendor/lib.go`, map[string]string{"vendor/lib.go": ""}},
		"two":                   {[]string{"vendor/lib.go", "vendor/sub/deep/c.go"}, `echo new > vendor/lib.go && echo new > vendor/sub/deep/c.go`, map[string]string{"vendor/lib.go": "new\n", "vendor/sub/deep/c.go": "new\n"}},
		"git's settings":        {[]string{".git/config"}, `echo new > .git/config`, map[string]string{".git/config": "new\n"}},
		"a hook":                {[]string{".git/hooks/post-merge"}, `echo new > .git/hooks/post-merge`, map[string]string{".git/hooks/post-merge": "new\n"}},
		"a link lies beside it": {[]string{"linked/lib.go"}, `echo new > linked/lib.go && rm linked/link`, map[string]string{"linked/lib.go": "new\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, f := range files {
				w.make("ws/" + f)
			}
			if err := os.Symlink("lib.go", filepath.Join(w.ws, "linked/link")); err != nil {
				t.Fatal(err)
			}
			before := w.contents()
			w.change = func(g *launch.Grant) {
				g.DenyWrite = []string{w.ws + "/vendor", w.ws + "/linked"}
				for _, p := range tc.opened {
					g.Opened = append(g.Opened, filepath.Join(w.ws, p))
				}
			}
			script := tc.do + "; exec 2>/dev/null; "
			for _, f := range files {
				if !slices.Contains(tc.opened, f) {
					script += fmt.Sprintf("echo evil >> %[1]s; rm -f %[1]s; mv %[1]s moved; ", f)
				}
			}
			w.sh(script + "rm -rf vendor/deep; mv -T vendor/deep v1; mv -T vendor v2; mv -T .git v3; rm -rf moved v1 v2 v3; true") // those are copies
			after := w.contents()
			for p, want := range tc.want {
				if after[p] != want {
					t.Errorf("%s is %q, want %q", p, after[p], want)
				}
				delete(before, p)
				delete(after, p)
			}
			if !maps.Equal(before, after) {
				t.Errorf("there is\n%v\nwas\n%v", after, before)
			}
			if _, err := os.Lstat(filepath.Join(w.ws, "linked/link")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file that can't be opened by itself is not opened.
func TestFilesThatCannotBeOpenedAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("ws/vendor/lib.go")
	for i := range 300 {
		w.make(fmt.Sprintf("ws/vendor/%d", i))
	}
	open := ""
	keep := func(g *launch.Grant) {
		g.DenyWrite, g.Opened = []string{w.ws + "/vendor"}, []string{w.ws + "/vendor/" + open}
	}
	w.change = keep
	open = "new.go"
	if p, err := w.spawn("true"); err == nil || !strings.Contains(err.Error(), "can't be opened by itself") {
		t.Errorf("a new file among 301: %v, %v", p, err)
	}
	w.change = func(g *launch.Grant) {
		g.WritableRoots = []string{filepath.Dir(w.ws)}
		g.DenyWrite, g.DenyRead = []string{w.ws + "/vendor"}, []string{w.ws + "/vendor/keys"}
		g.Opened = []string{filepath.Join(w.ws, "vendor", open)}
	}
	w.make("ws/vendor/keys/deep/k", "home/.gantry/x")
	for path, want := range map[string]string{"keys/deep/new": "no approval overrides that", "../../home/rules/x.rules": "gantry's own folder"} {
		open = path
		if p, err := w.spawn("true"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", path, p, err)
		}
	}
	w.change = keep
	open = "lib.go"
	if out, exit := w.sh("echo new > vendor/lib.go && ! echo evil > vendor/7 && cat vendor/lib.go"); exit.Code != 0 || !strings.HasSuffix(out, "new") {
		t.Errorf("one of 301: exit %d, %q", exit.Code, out)
	}
}

// A folder that is pinned because of a denied file in it does not become writable.
func TestPinnedFolderStaysReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("ws/vendor/sub/secret", "ws/vendor/sub/lib.go", "ws/.git/hooks/secret", "ws/conf/in/secret")
	w.change = func(g *launch.Grant) {
		g.DenyWrite = []string{w.ws + "/vendor"}
		g.DenyRead = []string{w.ws + "/vendor/sub/secret", w.ws + "/.git/hooks/secret", w.ws + "/conf/in/secret"}
	}
	before := w.contents()
	before["conf/in/new"] = "x\n"
	w.sh(`exec 2>/dev/null; echo evil > vendor/sub/lib.go; echo evil > vendor/sub/new; echo evil > .git/hooks/pre-push; echo evil > .git/config; mv conf conf2; echo x > conf/in/new`)
	if after := w.contents(); !maps.Equal(before, after) {
		t.Errorf("there is\n%v\nwas\n%v", after, before)
	}
}

// contents returns the contents of the workspace's files by path.
func (w *world) contents() map[string]string {
	out := map[string]string{}
	if err := filepath.WalkDir(w.ws, func(p string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		out[strings.TrimPrefix(p, w.ws+"/")] = string(b)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}
