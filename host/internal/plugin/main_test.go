//go:build linux

package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		os.Exit(behave(mode))
	}
	if dir := os.Getenv(hostVariable); dir != "" {
		os.Exit(helperHost(dir))
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for an event before it fails.
const patience = 20 * time.Second

// testHost is a supervisor with its own folders, its log and its states.
type testHost struct {
	*plugin.Supervisor
	t   testing.TB
	log *logBuffer
	dir string // for sockets

	mu     sync.Mutex
	states []plugin.State
	woken  chan struct{}
}

// logBuffer is a buffer for the log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// isolations runs a test with both kinds of isolation.
func isolations(t *testing.T, f func(t *testing.T, configure func(*plugin.Config))) {
	for name, scan := range map[string]bool{"namespace": false, "scan": true} {
		t.Run(name, func(t *testing.T) {
			f(t, func(c *plugin.Config) { c.NoNamespaces = scan })
		})
	}
}

// build returns a supervisor that is closed when the test ends.
func build(t testing.TB, configure ...func(*plugin.Config)) *testHost {
	t.Helper()
	short, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	long := t.TempDir()
	h := &testHost{t: t, log: &logBuffer{}, dir: short, woken: make(chan struct{}, 1)}
	cfg := plugin.Config{
		RuntimeDir: short, DataDir: filepath.Join(long, "data"), CacheDir: filepath.Join(long, "cache"),
		CachePath: filepath.Join(long, "manifests"), HostVersion: "0.0.1-test",
		Logger:  hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: h.log, JSONFormat: true}),
		OnState: h.onState,
	}
	for _, f := range configure {
		f(&cfg)
	}
	if h.Supervisor, err = plugin.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", h.log)
		}
	})
	return h
}

func (h *testHost) onState(s plugin.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, s)
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// await waits for a state after the one that the previous await returned.
func (h *testHost) await(mode plugin.Mode) plugin.State {
	h.t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		for i, s := range h.states {
			if s.Mode == mode {
				h.states = h.states[i+1:]
				h.mu.Unlock()
				return s
			}
		}
		seen := append([]plugin.State(nil), h.states...)
		h.mu.Unlock()
		select {
		case <-h.woken:
		case <-deadline:
			h.t.Fatalf("the slot never became %v; seen: %v", mode, seen)
		}
	}
}

// spec returns the specification of a plugin with this mode. env adds variables as K=V.
func spec(t testing.TB, mode string, env ...string) plugin.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := plugin.Spec{
		Label: "w", Source: "./bin/w", Path: self, Where: "gantry.hcl:14",
		// Otherwise the race detector makes the plugin wait for a second before it exits.
		Env: map[string]string{modeVariable: mode, "GORACE": "atexit_sleep_ms=0"},
	}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		s.Env[k] = v
	}
	return s
}

// add adds a slot.
func (h *testHost) add(s plugin.Spec) *plugin.Slot {
	h.t.Helper()
	p, err := h.Add(s)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// acquire returns a lease or fails the test.
func acquire(t testing.TB, p *plugin.Slot) *plugin.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := p.Acquire(ctx)
	if err != nil {
		t.Fatalf("acquire: %v", explain(err))
	}
	return l
}

// explain formats an error with its details.
func explain(err error) string {
	s := err.Error()
	if e, ok := asError(err); ok {
		b, _ := json.Marshal(map[string]any{"printed": e.Printed, "stderr": e.StderrTail, "next": e.Next})
		s += " " + string(b)
	}
	return s
}

// command calls the plugin under test.
func command(ctx context.Context, l *plugin.Lease, name, input string) (string, error) {
	r, err := gantryv1.NewPluginServiceClient(l.Conn).Command(ctx, &gantryv1.CommandRequest{Name: name, InputJson: []byte(input)})
	if err != nil {
		return "", plugin.Classify(err, l)
	}
	return string(r.OutputJson), nil
}

// must is command for calls that must succeed.
func must(t testing.TB, l *plugin.Lease, name, input string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := command(ctx, l, name, input)
	if err != nil {
		t.Fatalf("%s: %v", name, explain(err))
	}
	return out
}

// gone waits until a process, which need not be our child, has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 {
			t.Fatalf("process %d is still there", pid)
		}
		return
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(b, ')')
	return i < 0 || len(b) < i+3 || b[i+2] != 'Z'
}

// marked lists the processes with this variable in their environment.
func marked(t testing.TB, variable string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(b, []byte(variable)) && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}
