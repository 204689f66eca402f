//go:build linux

package box_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/launch"
	rules "github.com/gantry-agent/gantry/host/internal/network"
)

// narrowed returns a world whose processes get less than a call's grant in a mode, and a folder of theirs. Through the proxy they reach
// 127.0.0.1.
func narrowed(t *testing.T, mode string) (w *world, folder string) {
	t.Helper()
	allowed, err := hosts.ParsePattern("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	w = newWorldWith(t, launch.Config{Proxy: func(ctx context.Context, _ *launch.Process, ln net.Listener) {
		rules.New(rules.Config{Rules: func() rules.Rules { return rules.Rules{Allow: []rules.Pattern{allowed}} }}).Serve(ctx, ln)
	}})
	w.mode = mode
	folder = filepath.Join(filepath.Dir(w.ws), "data", "profile")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.ws, "file"), []byte("SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.change = func(g *launch.Grant) { *g = g.Narrowed([]string{folder}) }
	return w, folder
}

func (w *world) narrowSpec(script string) launch.Spec {
	s := w.spec(script)
	s.Cwd = "/tmp"
	return s
}

// A narrow process has the system's programs, its folders and a /tmp of its own in every mode, and nothing of the user's.
func TestNarrow(t *testing.T) {
	t.Parallel()
	const socket = `python3 -c '
import errno, os, socket
try:
  %s
  print("done")
except OSError as e:
  print(errno.errorcode[e.errno])'`
	for _, mode := range []string{"read-only", "workspace-write", launch.FullAccess} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, folder := narrowed(t, mode)
			outside, err := net.Listen("unix", filepath.Join(filepath.Dir(w.ws), "socket"))
			if err != nil {
				t.Fatal(err)
			}
			defer outside.Close()
			abstract, err := net.Listen("unix", fmt.Sprintf("@gantry-narrow-%d-%s", os.Getpid(), mode))
			if err != nil {
				t.Fatal(err)
			}
			defer abstract.Close()
			for _, tc := range []struct{ name, do, says string }{
				{"its folder", "echo -n x > " + folder + "/file && cat " + folder + "/file", "x"},
				{"its /tmp", "echo -n x > /tmp/file && cat /tmp/file $TMPDIR/file", "xx"},
				{"the workspace", "cat $WS/file || ls $WS", "No such file"},
				{"what is beside its folder", "ls -A " + filepath.Dir(folder), "profile"},
				{"what leads to its folder", "echo x > " + filepath.Dir(folder) + "/new", "Read-only file system"},
				{"the machine", "cat /etc/hostname /etc/passwd /etc/shadow; ls /home /root /var /run/systemd", "No such file"},
				{"a program", "echo x > /usr/bin/new", "Read-only file system"},
				{"the kernel's files", `out=$(for f in /proc/[a-z]*; do [ -L $f ] || chmod $(stat -c %a $f) $f 2>/dev/null && [ ! -L $f ] && echo $f; done); echo "[$out]"`, "[]"},
				{"its user", `[ "$(id -u)" != 0 ] && echo ordinary`, "ordinary"},
				{"a socket of its own", fmt.Sprintf(socket, `s = socket.socket(socket.AF_UNIX); s.bind("/tmp/s"); s.listen(); socket.socket(socket.AF_UNIX).connect("/tmp/s")`), "done"},
				{"packets", fmt.Sprintf(socket, `socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)`), "EPERM"},
				{"another's socket", fmt.Sprintf(socket, `socket.socket(socket.AF_UNIX).connect("`+outside.Addr().String()+`")`), "ENOENT"},
				{"another's abstract socket", fmt.Sprintf(socket, `socket.socket(socket.AF_UNIX).connect(b"\0`+strings.TrimPrefix(abstract.Addr().String(), "@")+`")`), "ECONNREFUSED"},
				{"another root", `unshare --user --map-root-user chroot /usr/.. /bin/sh -c "echo changed"`, "changed"},
				{"mounts", `unshare --user --map-root-user --mount true`, "peration not permitted"},
				{"tables of packets", `unshare --user --map-root-user --net ` + fmt.Sprintf(socket, `socket.socket().setsockopt(0, 64, b"x" * 200)`), "EPERM"},
				{"what tables of packets have", `unshare --user --map-root-user --net ` + fmt.Sprintf(socket, `socket.socket().getsockopt(0, 64, 84)`), "EPERM"},
				{"a network device", `unshare --user --map-root-user --net ` + fmt.Sprintf(socket, `import fcntl; fcntl.ioctl(socket.socket(), 0x89a0, b"br0".ljust(32, b"\0"))`), "EPERM"},
				{"a raw socket", `unshare --user --map-root-user --net ` + fmt.Sprintf(socket, `socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)`), "EPERM"},
				{"the network", fmt.Sprintf(socket, `socket.create_connection(("10.0.0.1", 80), 5)`), "ENETUNREACH"},
				{"the proxy", "curl -s -o /dev/null -w '%{http_code}' http://nope.test/", "403"},
			} {
				p, err := w.launcher.Spawn(t.Context(), w.narrowSpec(tc.do))
				if err != nil {
					t.Fatal(err)
				}
				if out, _ := w.result(p); !strings.Contains(out, tc.says) || strings.Contains(out, "SECRET") || strings.Contains(out, "root:") {
					t.Errorf("%s: %q, want %q", tc.name, out, tc.says)
				}
			}
			// What it leaves stays in its folder, and nothing was moved aside or created in the workspace.
			if list, err := os.ReadDir(w.ws); err != nil || len(list) != 1 || len(w.moved()) != 0 {
				t.Errorf("the workspace has %v, moved %v (%v)", list, w.moved(), err)
			}
		})
	}
}

// A folder in whose place there is a link, or to which one leads, is not shown.
func TestNarrowFolderBehindALink(t *testing.T) {
	t.Parallel()
	w, folder := narrowed(t, "workspace-write")
	for _, at := range []string{"link", "dir/link"} {
		link := filepath.Join(folder, at)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(w.ws, link); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{link, filepath.Join(link, "sub")} {
			s := w.narrowSpec("true")
			s.Grant.WritableRoots = []string{p}
			if _, err := w.launcher.Spawn(t.Context(), s); err == nil || !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("%s: %v", p, err)
			}
		}
	}
}

// devtools is a connection to a browser.
type devtools struct {
	t    *testing.T
	in   chan launch.Input
	out  chan map[string]any
	next int
}

// browse starts a browser in a narrow sandbox, with its pipe as stdin and stdout.
func browse(t *testing.T, w *world, folder, program string) (*devtools, *launch.Process) {
	t.Helper()
	s := w.narrowSpec("")
	s.Argv = []string{
		"/bin/sh", "-c", `exec "$0" "$@" 3<&0 4>&1 1>&2 </dev/null`, program, "--headless", "--remote-debugging-pipe", "--user-data-dir=" + folder,
		"--proxy-server=" + "http://127.0.0.1:3128", "--proxy-bypass-list=<-loopback>", "--no-first-run", "--disable-gpu", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--site-per-process", "about:blank",
	}
	s.Env = append(s.Env, "HOME="+folder)
	s.Stdin, s.MergeStderr = true, false
	p, err := w.launcher.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	d := &devtools{t: t, in: make(chan launch.Input, 1), out: make(chan map[string]any, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		for range d.out {
		}
		<-ended
		if err := p.KillTree(context.Background()); err != nil {
			t.Error(err)
		}
		<-p.Gone()
	})
	go func() { // owned by the test; its cleanup ends it
		defer close(ended)
		defer close(d.out)
		var rest, said []byte
		exit, err := p.Attach(ctx, d.in, func(o launch.Output) error {
			if o.Stderr {
				said = append(said, o.Data...)
				return nil
			}
			rest = append(rest, o.Data...)
			for {
				frame, after, ok := bytes.Cut(rest, []byte{0})
				if !ok {
					return nil
				}
				var m map[string]any
				if err := json.Unmarshal(frame, &m); err != nil {
					return err
				}
				select {
				case d.out <- m:
				case <-ctx.Done():
				}
				rest = after
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the browser has ended: %+v, %v\n%s", exit, err, said)
		}
	}()
	return d, p
}

// until returns the first message for which match is true.
func (d *devtools) until(match func(map[string]any) bool) map[string]any {
	d.t.Helper()
	for m := range d.out {
		if match(m) {
			return m
		}
	}
	d.t.Fatal("the browser said nothing more")
	return nil
}

// call makes a call of a session and returns its result.
func (d *devtools) call(session, method string, params map[string]any) map[string]any {
	d.t.Helper()
	d.next++
	m := map[string]any{"id": d.next, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	b, err := json.Marshal(m)
	if err != nil {
		d.t.Fatal(err)
	}
	d.in <- launch.Input{Data: append(b, 0)}
	id := d.next
	got := d.until(func(m map[string]any) bool { return m["id"] == float64(id) })
	result, ok := got["result"].(map[string]any)
	if !ok {
		d.t.Fatalf("%s: %v", method, got)
	}
	return result
}

// Browsers start with their own sandbox and load pages through the proxy, in every mode.
func TestNarrowBrowser(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<title>hello</title>") }))
	t.Cleanup(origin.Close)
	for _, tc := range []struct{ program, mode string }{
		{"chromium-headless-shell", "workspace-write"}, {"chromium", "workspace-write"}, {"chromium-headless-shell", "read-only"}, {"chromium-headless-shell", launch.FullAccess},
	} {
		t.Run(tc.program+"/"+tc.mode, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(tc.program)
			if err != nil {
				t.Skipf("%s is not here", tc.program)
			}
			w, folder := narrowed(t, tc.mode)
			d, p := browse(t, w, folder, program)
			target, _ := d.call("", "Target.createTarget", map[string]any{"url": "about:blank"})["targetId"].(string)
			session, _ := d.call("", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
			d.call(session, "Page.enable", nil)
			load := func(url string) string {
				failed, _ := d.call(session, "Page.navigate", map[string]any{"url": url})["errorText"].(string)
				d.until(func(m map[string]any) bool { return m["method"] == "Page.loadEventFired" })
				r, _ := d.call(session, "Runtime.evaluate", map[string]any{"expression": "document.title + document.body.innerText"})["result"].(map[string]any)
				text, _ := r["value"].(string)
				return failed + text
			}
			if text := load(origin.URL); text != "hello" {
				t.Errorf("the page is %q", text)
			}
			if text := load("http://nope.test/"); strings.Contains(text, "hello") {
				t.Errorf("a host that is not allowed: %q", text)
			}
			for _, path := range []string{w.ws + "/file", "/etc/hostname"} {
				if text := load("file://" + path); strings.Contains(text, "SECRET") || !strings.Contains(text, "ERR_FILE_NOT_FOUND") {
					t.Errorf("%s: %q", path, text)
				}
			}
			if text := load(origin.URL); text != "hello" {
				t.Errorf("the page is %q", text)
			}
			browser, renderer := p.PID(), 0
			for _, pid := range descendants(t, p.PID()) {
				if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(b, []byte("--type=renderer")) {
					renderer = pid
				}
			}
			if renderer == 0 {
				t.Fatal("no renderer was found")
			}
			for _, kind := range []string{"user", "pid", "net"} {
				own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", renderer, kind))
				of, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", browser, kind))
				ours, _ := os.Readlink("/proc/self/ns/" + kind)
				if err == nil && (own == of || of == ours) {
					t.Errorf("the renderer's %s namespace is %s, the browser's %s, and this one %s", kind, own, of, ours)
				}
				if err != nil && os.Getuid() == 0 { // others can't see into another user namespace
					t.Error(err)
				}
			}
			if filters(t, renderer) <= filters(t, browser) {
				t.Errorf("the renderer has %d filters, the browser %d", filters(t, renderer), filters(t, browser))
			}
		})
	}
}

// descendants returns the processes below one.
func descendants(t *testing.T, pid int) (out []int) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		for _, text := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(append(out, child), descendants(t, child)...)
		}
	}
	return out
}

// filters returns how many filters of system calls a process has.
func filters(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "Seccomp_filters:")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What is denied in the system's folders stays denied where these are all that is shown besides a process's own folders.
func TestDenialsInSystemFolders(t *testing.T) {
	t.Parallel()
	const file, folder, above = "/usr/bin/env", "/usr/share", "/etc" // a narrow sandbox shows some of /etc
	for name, change := range map[string]func(*launch.Grant, string){
		"readable roots": func(g *launch.Grant, own string) { g.ReadableRoots = []string{own} },
		"narrow":         func(g *launch.Grant, own string) { *g = g.Narrowed([]string{own}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, own := narrowed(t, "workspace-write")
			for _, denied := range []bool{false, true} {
				w.change = func(g *launch.Grant) {
					if denied {
						g.DenyRead = []string{file, folder, above}
					}
					change(g, own)
				}
				p, err := w.launcher.Spawn(t.Context(), w.narrowSpec("head -c1 "+file+" >/dev/null && echo file; head -c1 "+above+"/ld.so.cache >/dev/null && echo above; ls "+folder+" >/dev/null && echo folder"))
				if err != nil {
					t.Fatal(err)
				}
				out, _ := w.result(p)
				for _, shown := range []string{"file", "above", "folder"} {
					if slices.Contains(strings.Split(out, "\n"), shown) == denied {
						t.Errorf("denied %v, %s: %q", denied, shown, out)
					}
				}
			}
		})
	}
}
