package attacks_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// providerKey is what a provider reads from its variable.
const providerKey = "sk-attacked-key-of-a-provider"

// world is a user with a workspace, and a machine around it with something to get.
type world struct {
	top, ws, out, user, home string
	programs                 string    // the folder with our own
	victim                   int       // a process that may be got at
	services, outer          *services // beside the boxes, and beside what is tried without one
	leaks                    []*os.File
	extra                    []string // more variables
	once                     *once
}

// once is what several rows share.
type once struct {
	rows    []row // all of them
	spelled sync.Once
	outputs map[string]string
	mu      sync.Mutex
	outside map[string]result // of tries without a sandbox, by what they do: some are made in several boxes
}

// prepare makes the world that boxes are made in.
func prepare(t *testing.T) *world {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "gantry-attacks-") // a box does not see the machine's /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	// Yama (kernel.yama.ptrace_scope=1, as distributions have it) would keep siblings from the victim, in a box or not.
	unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	w := &world{top: top, programs: os.Getenv(programsEnv), victim: os.Getpid(), services: serve(t), outer: serve(t), once: &once{outside: map[string]result{}}}
	if w.programs == "" {
		w.programs = filepath.Join(top, "programs")
		mkdir(t, w.programs)
		rig.CopyProgram(t, "/proc/self/exe", filepath.Join(w.programs, "attacker"), 0o755)
	}
	w.fill(t)
	return w
}

// fill makes what is in a world.
func (w *world) fill(t *testing.T) {
	t.Helper()
	for name, p := range map[string]*string{"ws": &w.ws, "out": &w.out, "user": &w.user, "home": &w.home} {
		*p = filepath.Join(w.top, name)
	}
	text := func(p, s string) {
		mkdir(t, filepath.Dir(filepath.Join(w.top, p)))
		if err := os.WriteFile(filepath.Join(w.top, p), []byte(s), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const repository = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	for _, dir := range []string{"ws/.git", "ws/lib/.git", "ws/store/worktrees/tree", "out/git"} {
		text(dir+"/HEAD", "ref: refs/heads/main\n")
		text(dir+"/config", repository)
		text(dir+"/hooks/pre-commit", "as it was")
		mkdir(t, filepath.Join(w.top, dir, "objects"))
		mkdir(t, filepath.Join(w.top, dir, "refs/heads"))
	}
	text("ws/app/.codex/config.toml", "as it was")
	text("ws/file", "")
	text("ws/sub/file", "")
	text("ws/secret.env", "SECRET of the project")
	text("ws/sub/LOUD.ENV", "SECRET of the project")
	text("ws/bin/touch", "#!/bin/sh\necho x > \"$OUT/by-another-touch\"\n")
	text("ws/tree/.git", "gitdir: "+w.ws+"/store/worktrees/tree\n")
	text("far/.git", "gitdir: "+w.out+"/git\n")
	text("out/file", "as it was")
	text("out/linked", "as it was")
	text("user/.ssh/id", "SECRET of the user")
	text("user/.netrc", "SECRET of the user")
	for _, name := range moreKeys {
		text("user/"+name, "SECRET of the user")
	}
	text("home/secrets/key", "SECRET of gantry")
	text("home/gantry.hcl", fmt.Sprintf(`
provider "other" {
  source      = "builtin/scripted"
  script_text = env("PROVIDER_KEY")
}
sandbox {
  writable_roots = [%q, %q]
  deny_read      = ["**/*.env"]
}
approval {
  policy = "never"
}
`, filepath.Join(w.ws, "tree"), filepath.Join(w.top, "far")))
	for to, from := range map[string]string{"ws/link": w.out, "ws/rel": "../out"} {
		if err := os.Symlink(from, filepath.Join(w.top, to)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"out/linked": "ws/hard", "ws/file": "ws/twice", "user/.netrc": "ws/keylink", "ws/secret.env": "ws/renamed"} {
		if err := os.Link(filepath.Join(w.top, from), filepath.Join(w.top, to)); err != nil {
			t.Fatal(err)
		}
	}
	// Descriptors that whoever started gantry has left open: a folder, and a file to be written.
	dir, err := os.Open(w.out)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(w.out, "file"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.leaks = []*os.File{dir, file}
	t.Cleanup(func() { dir.Close(); file.Close() })
}

func mkdir(t *testing.T, p string) {
	t.Helper()
	if err := os.MkdirAll(p, 0o755); err != nil {
		t.Fatal(err)
	}
}

// env is what gantry is started with, or a try outside of it.
func (w *world) env() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GANTRY_") || strings.HasPrefix(kv, "TMPDIR=") })
	return append(append(env, w.extra...),
		"GORACE=atexit_sleep_ms=0", // the race detector lets each helper wait for a second at its end
		"LC_ALL=C", "HOME="+w.user, "GANTRY_HOME="+w.home, "GANTRY_SYSTEM_CONFIG=-", "GANTRY_KEYRING=off", "PROVIDER_KEY="+providerKey, "A_SECRET=SECRET of the environment",
		"WS="+w.ws, "OUT="+w.out, "TOP="+w.top, "ENGINE="+w.home, "ATTACKER="+filepath.Join(w.programs, "attacker"), "SUID="+os.Getenv(suidEnv),
		"VICTIM="+strconv.Itoa(w.victim), "SERVICE="+w.services.dir, "ABSTRACT="+w.services.abstract, "PORT="+strconv.Itoa(w.services.port),
		"SEGMENT="+strconv.Itoa(w.services.segment), "NEEDLE=sk-attacked-", "NEEDLES_END=key-of-a-provider",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_NOSYSTEM=1",
	)
}

// snapshot is what lies outside, or is protected, with its content.
func (w *world) snapshot(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"out", "user", "home/secrets", "home/gantry.hcl", "far/.git", "ws/.git", "ws/lib/.git", "ws/store", "ws/tree/.git", "ws/app/.codex"} {
		err := filepath.Walk(filepath.Join(w.top, dir), func(p string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			content := ""
			if info.Mode().IsRegular() {
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				content = string(b)
			}
			fmt.Fprintln(&b, p, info.Mode(), info.ModTime().UnixNano(), content)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return b.String()
}

// services are what runs beside a box: sockets of every kind, and memory that is shared.
type services struct {
	dir, abstract string
	port, segment int
	t             testing.TB
	mu            sync.Mutex
	heard         []string
}

// serve starts services. Their goroutines end with their sockets.
func serve(t *testing.T) *services {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "gas") // short: sockets have little room for a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &services{dir: dir, abstract: "gantry-attacks-" + filepath.Base(dir), t: t}
	stream := func(kind, addr string) net.Listener {
		ln, err := net.Listen(kind, addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() { // owned by the listener, whose end ends it
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				if kind == "unix" { // a network is there to be reached in some boxes
					s.hear(kind + " " + addr)
				}
				c.Close()
			}
		}()
		return ln
	}
	datagram := func(addr string) {
		c, err := net.ListenPacket("unixgram", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() { // owned by the socket, whose end ends it
			for b := make([]byte, 64); ; {
				n, _, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				s.hear("unixgram " + addr + " " + string(b[:n]))
			}
		}()
	}
	stream("unix", filepath.Join(dir, "stream"))
	stream("unix", "@"+s.abstract)
	datagram(filepath.Join(dir, "datagram"))
	datagram("@" + s.abstract + ".d")
	s.port = stream("tcp", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	// A segment of shared memory with a key of its own.
	s.segment = os.Getpid()<<8 | int(dir[len(dir)-1])
	id, err := unix.SysvShmGet(s.segment, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return s
}

func (s *services) hear(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, what)
}

// quiet checks that nobody has reached a service.
func (s *services) quiet(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heard) > 0 {
		t.Errorf("services were reached: %q", s.heard)
	}
}

// gantry is the program.
func gantry(t testing.TB) string { return filepath.Join(rig.Bin(t), "gantry") }
