package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
	"github.com/hashicorp/go-hclog"
)

func skipWithoutSockets(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("clients of unix sockets are not known on " + runtime.GOOS)
	}
}

func statusOf(t *testing.T, c net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	return resp.StatusCode
}

func TestControlSocket(t *testing.T) {
	t.Parallel()
	skipWithoutSockets(t)
	peers := make(chan Peer, 1)
	home := home(t)
	r := start(t, Config{Address: Address{Kind: Unix}, Home: home}, func(ctx context.Context, s rpc.Stream, p Peer) {
		peers <- p
		echo(ctx, s, p)
	})
	path := filepath.Join(home, "app-server-control", "app-server-control.sock")
	if r.URL() != "unix://"+path || ControlSocket(home) != path {
		t.Errorf("%s, %s, want %s", r.URL(), ControlSocket(home), path)
	}
	for path, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	c := r.client()
	echoes(t, c, "hello")
	if p := await(t, peers, "a client"); p.Kind != Unix || p.PID != os.Getpid() || p.Launched || p.Addr != "" {
		t.Errorf("%+v", p)
	}
	for request, want := range map[string]int{
		handshake("/any", "anything.example", ""):                   101,
		handshake("/", "localhost", "Origin: http://localhost\r\n"): 403,
		plain("GET", "/", "localhost", ""):                          400,
		plain("POST", "/", "localhost", ""):                         405,
	} {
		if status, body := r.ask(request); status != want {
			t.Errorf("%q: %d %q, want %d", request, status, body, want)
		}
	}
	r.cancel(errors.New("over"))
	await(t, r.result, "the end of Serve")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// A process that this one has started is known as such.
func TestLaunchedClient(t *testing.T) {
	t.Parallel()
	addresses(t, func(t *testing.T, cfg Config) {
		if cfg.Address.Kind == TCP && runtime.GOOS != "linux" {
			t.Skip("not known on " + runtime.GOOS)
		}
		peers := make(chan Peer, 1)
		r := start(t, cfg, func(_ context.Context, _ rpc.Stream, p Peer) { peers <- p })
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^TestClientProcess$")
		cmd.Env = append(os.Environ(), "GANTRY_TEST_URL="+r.URL(), "GANTRY_TEST_HOST="+r.host())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pid := 0
		if cfg.Address.Kind == Unix {
			pid = cmd.Process.Pid
		}
		if p := await(t, peers, "a client"); p.PID != pid || !p.Launched {
			t.Errorf("%+v, want process %d", p, pid)
		}
	})
}

// TestClientProcess is the program of the test above.
func TestClientProcess(t *testing.T) {
	network, address, ok := strings.Cut(os.Getenv("GANTRY_TEST_URL"), "://")
	if !ok {
		t.Skip("not a test")
	}
	c, err := net.Dial(strings.Replace(network, "ws", "tcp", 1), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, handshake("/", os.Getenv("GANTRY_TEST_HOST"), "")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c)
}

func TestSocketPath(t *testing.T) {
	skipWithoutSockets(t)
	dir := home(t)
	t.Chdir(dir)
	listen := func(path string) (*Server, error) {
		s, err := Listen(t.Context(), Config{Address: Address{Kind: Unix, Path: path}, Home: dir})
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return s, err
	}
	refused := func(name, path string, want string) {
		t.Helper()
		_, err := listen(path)
		if err == nil {
			t.Errorf("%s is replaced", name)
			return
		}
		message, next := hint.Split(err)
		if !strings.Contains(message, want) || next == "" || !strings.Contains(message, filepath.Base(path)) {
			t.Errorf("%s: %q, next %q, want %q", name, message, next, want)
		}
	}

	s, err := listen(filepath.Join("new", "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "unix://" + filepath.Join(dir, "new", "a.sock"); s.URL() != want {
		t.Errorf("%s, want %s", s.URL(), want)
	}
	if info, err := os.Stat("new"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a created folder: %v, %v", info.Mode(), err)
	}
	refused("a socket in use", "new/a.sock", "already in use by process")
	if err := os.Symlink("new/a.sock", "link.sock"); err != nil {
		t.Fatal(err)
	}
	refused("a link", "link.sock", "is not a socket")
	for name, content := range map[string]string{"empty": "", "full": "text"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a file", name, "is not a socket")
	}
	refused("a folder", "new", "is not a socket")
	refused("a long path", strings.Repeat("x", 120), "longer than")

	// An existing folder is left as it is.
	if err := os.Mkdir("open", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod("open", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := listen("open/a.sock"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("open"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("an existing folder: %v, %v", info.Mode(), err)
	}

	// A process that was killed leaves its socket.
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: "stale.sock", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	if _, err := listen("stale.sock"); err != nil {
		t.Errorf("a stale socket: %v", err)
	}
	refused("the socket in its place", "stale.sock", "already in use")

	// A file that has taken the place of the socket is not removed.
	if err := os.Remove("new/a.sock"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("new/a.sock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("new/a.sock"); err != nil {
		t.Error(err)
	}
}

// Of servers that start at the same time, one gets the socket, and it stays reachable.
func TestStartupRace(t *testing.T) {
	t.Parallel()
	skipWithoutSockets(t)
	for range 20 {
		home := home(t)
		path := ControlSocket(home)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ln.SetUnlinkOnClose(false)
		ln.Close()
		var racing sync.WaitGroup
		servers := make(chan *Server, 8)
		for range cap(servers) {
			racing.Go(func() {
				s, err := Listen(t.Context(), Config{Address: Address{Kind: Unix}, Home: home, Logger: hclog.NewNullLogger()})
				if err == nil {
					servers <- s
				} else if !strings.Contains(err.Error(), "already in use") {
					t.Error(err)
				}
			})
		}
		racing.Wait()
		close(servers)
		if len(servers) != 1 {
			t.Errorf("%d servers listen", len(servers))
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Errorf("not reachable: %v", err)
		} else {
			c.Close()
		}
		for s := range servers {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestStartupWaitsForTheLock(t *testing.T) {
	t.Parallel()
	skipWithoutSockets(t)
	home := home(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	lock := filepath.Join(home, controlDir, startupLock)
	if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := flock.Take(lock, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	cause := errors.New("enough")
	cancel(cause)
	if _, err := Listen(ctx, Config{Address: Address{Kind: Unix}, Home: home}); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
}
