//go:build linux

package box_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// below returns the paths of what is in a folder.
func below(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		out = append(out, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inTmp returns a new folder in the machine's /tmp, with files in it.
func inTmp(t *testing.T, paths ...string) string {
	t.Helper()
	top, err := os.MkdirTemp("/tmp", "gantry-box-lead")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	for _, p := range paths {
		p = filepath.Join(top, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("SEEN"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// Bubblewrap creates missing mount points, and while it does the machine is at /oldroot. A command that replaces a folder above a mount with
// a symbolic link can't have the next sandbox create folders or files outside.
func TestMountsFollowNoLinks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		setup func(t *testing.T, w *world) (lead []string, later func(*launch.Grant)) // what the command replaces; what else the next command is granted
	}{
		{"a root two levels below /tmp", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "ws/file")
			w.ws = filepath.Join(top, "ws")
			return []string{top}, nil
		}},
		{"a root three levels below /tmp", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "a/ws/file")
			w.ws = filepath.Join(top, "a/ws")
			return []string{filepath.Join(top, "a"), top}, nil
		}},
		{"gantry's home", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "home/threads.db")
			w.home = filepath.Join(top, "home")
			return []string{top}, nil
		}},
		{"a denied folder", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "denied/file")
			w.change = func(g *launch.Grant) { g.DenyRead = []string{filepath.Join(top, "denied")} }
			return []string{top}, nil
		}},
		{"a denied file", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "sub/denied")
			w.change = func(g *launch.Grant) { g.DenyRead = []string{filepath.Join(top, "sub/denied")} }
			return []string{filepath.Join(top, "sub"), top}, nil
		}},
		{"a key that is shown", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "ws/file", "userhome/.ssh/id")
			w.ws = filepath.Join(top, "ws")
			w.change = func(g *launch.Grant) {
				g.WritableRoots, g.Shown = []string{w.ws}, []string{filepath.Join(top, "userhome/.ssh")}
			}
			return []string{filepath.Join(top, "userhome"), top}, nil
		}},
		{"a readable root", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "read/file")
			w.change = func(g *launch.Grant) { g.ReadableRoots = []string{w.ws, filepath.Join(top, "read")} }
			return []string{top}, nil
		}},
		{"a plugin's own program", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "bin/file")
			w.programs = []string{filepath.Join(top, "bin/sh")}
			if err := copyProgram("/bin/sh", w.programs[0]); err != nil {
				t.Fatal(err)
			}
			return []string{filepath.Join(top, "bin"), top}, nil
		}},
		{"what is in a root", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			w.make("ws/a/b/denied", "ws/a/b/kept", "ws/lib/.git/config", "ws/lib/.git/HEAD")
			w.change = func(g *launch.Grant) {
				g.DenyRead, g.DenyWrite = []string{filepath.Join(w.ws, "a/b/denied")}, []string{filepath.Join(w.ws, "a/b/kept")}
			}
			return []string{filepath.Join(w.ws, "a/b"), filepath.Join(w.ws, "a"), filepath.Join(w.ws, "lib")}, nil
		}},
		{"a root in a root", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			w.make("ws/a/b/root/file")
			w.change = func(g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, filepath.Join(w.ws, "a/b/root")) }
			return []string{filepath.Join(w.ws, "a/b"), filepath.Join(w.ws, "a")}, nil
		}},
		{"a later root", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "root/file")
			return []string{top}, func(g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, filepath.Join(top, "root")) }
		}},
		{"a later root directly below /tmp", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t, "file")
			return []string{top}, func(g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, top) }
		}},
		{"a later program directly below /tmp", func(t *testing.T, w *world) ([]string, func(*launch.Grant)) {
			top := inTmp(t)
			if err := os.Remove(top); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(top, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			return []string{top}, func(g *launch.Grant) { g.Near = []string{top} }
		}},
	} {
		for _, keeps := range []bool{false, true} {
			for link, to := range map[string]string{"absolute": "/oldroot", "relative": "../../../../../../oldroot", "missing": "/oldroot"} {
				t.Run(tc.name+"/"+map[bool]string{false: "made anew", true: "kept"}[keeps]+"/"+link, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					w.out += "/deep"
					w.make("out/deep/", "userhome/")
					lead, later := tc.setup(t, w)
					cfg := launch.Config{}
					if keeps {
						cfg = keeping
					}
					w.open(cfg)
					w.runsOn()
					before := below(t, filepath.Dir(w.out))
					to := to + w.out
					if link == "missing" {
						to += "/made"
					}
					var do strings.Builder
					for _, p := range lead {
						do.WriteString("mv " + p + " /tmp/aside || mv " + p + " \"$WS/aside\" || rm -rf " + p + "; ln -s " + to + " " + p + "; ")
					}
					w.sh("mkdir -p /tmp/x; " + do.String() + "true")
					if later != nil {
						w.change = later
					}
					p, err := w.spawn("echo runs")
					if err == nil {
						if out, _ := w.result(p); out != "runs" {
							t.Errorf("the next command: %q", out)
						}
					} else {
						t.Errorf("the next command: %v", err)
					}
					if after := below(t, filepath.Dir(w.out)); !slices.Equal(after, before) {
						t.Errorf("outside there are %q, want %q", after, before)
					}
				})
			}
		}
	}
}

// A command that is running can't do it either, by exchanging the folder and a link again and again while the next sandbox is created.
// Without protection it takes a few tries.
func TestMountsFollowNoLinksMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make("userhome/")
	top := inTmp(t, "root/a/b/c/d/file")
	before := below(t, w.out)
	p, lines := w.session(python(`
folder, link, n = "` + top + `", "/tmp/link", 0
os.mkdir(folder)
os.symlink("/oldroot` + w.out + `", link)
print("ready", flush=True)
while True:
  c.renameat2(-100, folder.encode(), -100, link.encode(), 2)
  try: # gantry removes links, and bubblewrap creates folders
    if not os.path.islink(folder) and not os.path.islink(link):
      n += 1
      if os.path.lexists(link):
        os.rename(link, "/tmp/was%d" % n)
      os.symlink("/oldroot` + w.out + `", link)
    if not os.path.lexists(folder):
      os.mkdir(folder)
  except OSError:
    pass`))
	until(t, lines, "ready")
	w.change = func(g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, filepath.Join(top, "root/a/b/c/d")) }
	for range 60 {
		if next, err := w.spawn("true"); err == nil { // otherwise it was noticed
			w.result(next)
		}
		if after := below(t, w.out); !slices.Equal(after, before) {
			t.Fatalf("outside there are %q, want %q", after, before)
		}
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
}
