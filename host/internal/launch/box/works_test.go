//go:build linux

package box_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// attempt is something that must work in a sandbox. What must fail is listed in e2e/attacks.
type attempt struct {
	name string
	// do is a script. It runs in the workspace; $OUT lies outside of it, and $WS/link points there.
	do string
	// says is in its output: an errno's text, or what it prints itself.
	says string
}

// works are things that programs need.
var works = []attempt{
	{"the workspace", `echo x > new && mkdir d && mv new d/ && rm -r d && echo done`, "done"},
	{"/tmp", `f=$(mktemp) && echo x > $f && rm $f && echo done`, "done"},
	{"TMPDIR", `echo $TMPDIR`, "/tmp"},
	{"/dev", `echo x > /dev/null && head -c 4 /dev/zero | wc -c`, "4"},
	{"shared memory of its own", `echo x > /dev/shm/x && cat /dev/shm/x`, "x"},
	{"a child and a pipe", `(echo a; echo b) | sort -r | head -1`, "b"},
	{"a socket pair", `python3 -c 'import socket; a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1), b.getsockopt(1, 3)); a.shutdown(1)'`, "b'x' 1"},
	{"an event loop", `python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0)); print("done")'`, "done"},
	{"reading the repository", `cat .git/config`, "[core]"},
	{"a program", `git --version`, "git version"},
	{"signals to own children", `sleep 1000 & kill $! && wait $!; echo $?`, "143"},
	{"to know that it is in a box", `echo $GANTRY_SANDBOX $GANTRY_SANDBOX_NETWORK_DISABLED`, "workspace-write 1"},
}

// prepared returns a world with something to attack.
func prepared(t *testing.T) *world {
	w := newWorld(t)
	w.fill()
	return w
}

// fill puts something to attack into a world.
func (w *world) fill() {
	t := w.t
	t.Helper()
	for path, text := range map[string]string{
		"ws/.git/config": "[core]\n", "ws/.git/hooks/sample": "", "ws/file": "", "out/file": "as it was", "home/secrets/key": "SECRET",
		"home/threads.db": "SECRET", "userhome/.ssh/id": "SECRET", "userhome/.netrc": "SECRET",
	} {
		p := filepath.Join(filepath.Dir(w.ws), path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(w.out, filepath.Join(w.ws, "link")); err != nil {
		t.Fatal(err)
	}
}

func TestOrdinaryProgramsWork(t *testing.T) {
	t.Parallel()
	for _, a := range works {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if out, exit := prepared(t).sh(a.do); exit.Code != 0 || !strings.Contains(out, a.says) {
				t.Errorf("exit %d, %q, want %q", exit.Code, out, a.says)
			}
		})
	}
}

// Keys that a person allowed to be read are visible, and no others, not even below an allowed folder.
func TestShownKeys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, shown, do, says string }{
		{"a folder of keys", "userhome/.ssh", `cat $OUT/../userhome/.ssh/id; cat $OUT/../userhome/.netrc`, "SECRETcat: "},
		{"a key in one", "userhome/.ssh/id", `cat $OUT/../userhome/.ssh/id; ls $OUT/../userhome/.ssh`, "SECRETls: "},
		{"a file of keys", "userhome/.netrc", `cat $OUT/../userhome/.netrc`, "SECRET"},
		{"a folder above", "userhome", `cat $OUT/../userhome/.ssh/id || echo hidden`, "hidden"},
		{"gantry's own", "home/secrets", `cat $OUT/../home/secrets/key || echo hidden`, "hidden"},
		{"it is not written", "userhome/.ssh", `echo x > $OUT/../userhome/.ssh/id`, "Read-only file system"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			w.change = func(g *launch.Grant) { g.Shown = []string{filepath.Join(filepath.Dir(w.ws), tc.shown)} }
			if out, _ := w.sh(tc.do); !strings.Contains(out, tc.says) {
				t.Errorf("%q, want %q", out, tc.says)
			}
		})
	}
}

// A process with a /tmp of its own sees what it is started with in the machine's, and no keys in that.
func TestNear(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	top, err := os.MkdirTemp("/tmp", "gantry-box-near")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	for _, p := range []string{"project/sub/file", "script", "other", "userhome/.ssh/id", "userhome/notes", "home/secrets", "ws/sub/file"} {
		p = filepath.Join(top, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("SEEN"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.home, w.ws = filepath.Join(top, "home"), filepath.Join(top, "ws") // and the user's home is beside them
	w.open(launch.Config{})
	near := []string{"project/sub", "script", "userhome", "userhome/.ssh", "home", "ws/sub", "missing"}
	w.change = func(g *launch.Grant) {
		for _, p := range near {
			g.Near = append(g.Near, filepath.Join(top, p))
		}
		g.Near = append(g.Near, "/tmp", "/")
	}
	for _, tc := range []struct{ do, says string }{
		{`cat project/sub/file script userhome/notes`, "SEENSEENSEEN"},
		{`cat other || echo hidden`, "hidden"},
		{`cat userhome/.ssh/id || echo hidden`, "hidden"},
		{`cat home/secrets || echo hidden`, "hidden"},
		{`echo x > project/sub/file`, "Read-only file system"},
		{`echo x > script`, "Read-only file system"},
		{`echo -n x > ws/sub/file && cat ws/sub/file`, "x"},
	} {
		if out, _ := w.sh("cd " + top + "; " + tc.do); !strings.Contains(out, tc.says) || strings.Contains(tc.says, "hidden") && strings.Contains(out, "SEEN") {
			t.Errorf("%s: %q, want %q", tc.do, out, tc.says)
		}
	}
	if out, _ := w.sh("mv " + top + " /tmp/aside; echo x > " + top + "/new"); !strings.Contains(out, "Device or resource busy") || !strings.Contains(out, "Read-only file system") {
		t.Errorf("moving what leads there: %q", out)
	}
	near = []string{"project"}
	s := w.spec("cat file")
	s.Cwd = filepath.Join(top, "project", "sub")
	p, err := w.launcher.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := w.result(p); out != "SEEN" {
		t.Errorf("in a folder of the machine's /tmp: %q", out)
	}
}
