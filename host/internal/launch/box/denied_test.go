//go:build linux

package box_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// make makes files below the world's folder; what ends with a slash is a folder.
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

// guarded is a world in which something is denied. The attempts share it: each is a command of one thread.
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

func TestWhatIsDeniedIsNotRead(t *testing.T) {
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
		{"what is not there", `mkdir later || echo x > later/x`, kept},
		{"a folder that is kept", `echo x > vendor/lib.go`, kept},
		{"something new in it", `echo x > vendor/new`, kept},
		{"the folder's name", `mv vendor v2`, "Device or resource busy"},
		{"a file that is kept", `echo x >> go.lock`, kept},
		{"what is kept and not there", `mkdir -p generated/code`, kept},
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

// list is what lies in the workspace, with modes.
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

// An approval to run without the sandbox, or none at all, leaves what is denied unread.
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

// Whatever can't be enforced is not run.
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
		"a link to the workspace":      {func(w *world) { os.Symlink("..", filepath.Join(w.ws, "up.env")) }, "/*.env", "in which commands are to work"},
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
