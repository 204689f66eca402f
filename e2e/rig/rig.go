// Package rig runs the real gantry with real plugins in temporary folders, with a scripted model.
//
// It owns the folders, configuration and environment of a run, its output, and the requests to the model. It does not know what a
// test checks, or gantry's internals.
//
// Start with [New]. The programs come from the folder in GANTRY_BIN, by default bin/ in the repository.
package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Rig is a user with a home folder, a project and a model.
type Rig struct {
	t    testing.TB
	Bin  string // folder of the programs
	Home string // gantry's home
	Dir  string // the project
	Log  string // the model's requests
	Host string // the program in Bin to run: gantry
	Env  []string
	conf string
}

// bound limits the time of a run before it counts as hung: far more than any run takes on two cores under the race detector.
const bound = 5 * time.Minute

// New returns a rig whose model plays the script (TOML). Use [Rig.Config] to add configuration.
func New(t testing.TB, script string) *Rig {
	t.Helper()
	return NewIn(t, "", script)
}

// NewIn is New with gantry's home in a folder; empty: that for temporary files.
func NewIn(t testing.TB, dir, script string) *Rig {
	t.Helper()
	r := &Rig{t: t, Bin: Bin(t), Home: shortDir(t, dir), Dir: t.TempDir(), Host: "gantry"}
	r.Log = filepath.Join(shortDir(t, ""), "requests.jsonl") // plugins cannot see gantry's home
	path := filepath.Join(r.Home, "script.toml")
	r.Write(path, script)
	r.conf = filepath.Join(r.Home, "gantry.hcl")
	r.Write(r.conf, fmt.Sprintf(`
provider "scripted" {
  source = "builtin/scripted"
  script = %q
  log    = %q
}

model "default" {
  provider = "scripted"
  name     = "scripted"
}

approval {
  policy = "never"
}

sandbox {
  mode = "full-access"
}
`, path, r.Log))
	// A separate home: a login shell would run the machine's profile, which may be slow or wait for other users of it.
	r.Env = append(clean(os.Environ()), "GANTRY_HOME="+r.Home, "GANTRY_SYSTEM_CONFIG=-", "HOME="+filepath.Join(r.Home, "user"), "SHELL=/bin/bash")
	return r
}

// clean removes variables that would make a run depend on the machine.
func clean(env []string) []string {
	var out []string
	for _, kv := range env {
		// CI is set for the tests themselves; gantry would not record cassettes.
		if !strings.HasPrefix(kv, "GANTRY_") && !strings.HasPrefix(kv, "CI=") {
			out = append(out, kv)
		}
	}
	return out
}

// Bin returns the folder of the programs. A test fails without them.
func Bin(t testing.TB) string {
	t.Helper()
	dir, err := findBin()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func findBin() (string, error) {
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		for d := wd; ; d = filepath.Dir(d) {
			if _, err := os.Stat(filepath.Join(d, "go.work")); err == nil {
				dir = filepath.Join(d, "bin")
				break
			}
			if d == filepath.Dir(d) {
				return "", errors.New("no go.work above the test: set GANTRY_BIN")
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gantry")); err != nil {
		return "", fmt.Errorf("the binaries are missing; run `make build`: %w", err)
	}
	return dir, nil
}

// shortDir returns a temporary folder in parent whose path is short enough for sockets.
func shortDir(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Config appends to the user's gantry.hcl.
func (r *Rig) Config(hcl string) {
	r.t.Helper()
	b, err := os.ReadFile(r.conf)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Write(r.conf, string(b)+hcl)
}

// Write writes a file; a relative path is resolved against the project.
func (r *Rig) Write(path, content string) {
	r.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Read reads a file of the project, or returns "" if it does not exist.
func (r *Rig) Read(path string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Dir, path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(b)
}

// Result is the result of a run.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Gantry runs gantry and waits for its end.
func (r *Rig) Gantry(args ...string) Result {
	r.t.Helper()
	return r.Start(args...).Wait()
}

// OK is like Gantry and fails the test if the exit status is not 0.
func (r *Rig) OK(args ...string) Result {
	r.t.Helper()
	res := r.Gantry(args...)
	if res.Code != 0 {
		r.t.Fatalf("gantry %s: exit %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
	return res
}

// Run is a running gantry.
type Run struct {
	rig    *Rig
	Cmd    *exec.Cmd
	out    buffer
	err    buffer
	cancel context.CancelFunc
	once   sync.Once
	result Result

	terminal *os.File // for a run on a pseudoterminal
	drained  chan struct{}
}

// command returns a command that is killed when cancel is called, or when it has run for too long, which the test reports.
func (r *Rig) command(program string, args ...string) (cmd *exec.Cmd, cancel context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	cmd = exec.CommandContext(ctx, filepath.Join(r.Bin, program), args...)
	cmd.Cancel = func() error {
		if ctx.Err() == context.DeadlineExceeded {
			r.t.Errorf("%s %q is killed, since it has run for %v", program, args, bound)
		}
		return cmd.Process.Kill()
	}
	return cmd, cancel
}

// Start starts gantry, which is killed when the test ends.
func (r *Rig) Start(args ...string) *Run {
	r.t.Helper()
	cmd, cancel := r.command(r.Host, args...)
	run := &Run{rig: r, Cmd: cmd, cancel: cancel}
	run.Cmd.Dir, run.Cmd.Env = r.Dir, r.Env
	run.Cmd.Stdout, run.Cmd.Stderr = &run.out, &run.err
	run.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C in the test's terminal must not reach it
	run.Cmd.WaitDelay = 5 * time.Second
	if err := run.Cmd.Start(); err != nil {
		cancel()
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	return run
}

// Wait waits for the end.
func (r *Run) Wait() Result {
	r.once.Do(func() {
		err := r.Cmd.Wait()
		r.cancel()
		r.endTerminal()
		r.result = Result{Stdout: r.out.String(), Stderr: r.err.String(), Code: r.Cmd.ProcessState.ExitCode()}
		if errors.Is(err, exec.ErrWaitDelay) {
			r.rig.t.Errorf("something that gantry left behind still holds its output")
		}
	})
	return r.result
}

// Signal sends a signal to the gantry process only.
func (r *Run) Signal(s os.Signal) {
	r.rig.t.Helper()
	if err := r.Cmd.Process.Signal(s); err != nil {
		r.rig.t.Fatal(err)
	}
}

// Until polls until a condition is true, for conditions without events, such as files and processes.
func (r *Rig) Until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(bound / 2)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

// Sees waits until gantry has printed a text.
func (r *Run) Sees(text string) {
	r.rig.t.Helper()
	r.rig.Until(fmt.Sprintf("gantry prints %q", text), func() bool {
		return strings.Contains(r.out.String(), text) || strings.Contains(r.err.String(), text)
	})
}

// SeesTimes waits until gantry has printed a text n times.
func (r *Run) SeesTimes(text string, n int) {
	r.rig.t.Helper()
	r.rig.Until(fmt.Sprintf("gantry prints %q for the %d. time", text, n), func() bool {
		return strings.Count(r.Output(), text) >= n
	})
}

// Output returns the output so far, of both streams.
func (r *Run) Output() string { return r.out.String() + r.err.String() }

// Stdout returns the standard output so far.
func (r *Run) Stdout() string { return r.out.String() }

// Last returns the model's last request.
func (r *Rig) Last() Request {
	r.t.Helper()
	lines := r.requestLines()
	for _, line := range slices.Backward(lines) { // parsing all of them is slow under the race detector
		if q, ok := r.request(line); ok {
			return q
		}
	}
	r.t.Fatal("the model got no request")
	return Request{}
}

// Request is a request to the model.
type Request struct {
	Time      time.Time   `json:"time"`
	Monotonic int64       `json:"monotonic_ns"`
	PID       int         `json:"pid"`
	Thread    string      `json:"thread"`
	Turn      string      `json:"turn"`
	Request   llm.Request `json:"request"`
}

// Requests returns the model's requests so far.
func (r *Rig) Requests() []Request {
	r.t.Helper()
	var out []Request
	for _, line := range r.requestLines() {
		if q, ok := r.request(line); ok {
			out = append(out, q)
		}
	}
	return out
}

func (r *Rig) requestLines() [][]byte {
	r.t.Helper()
	b, err := os.ReadFile(r.Log)
	if err != nil {
		r.t.Fatalf("the model got no request: %v", err)
	}
	return bytes.Split(b, []byte("\n"))
}

// request parses a line of the log. A provider that was killed while writing leaves an incomplete line.
func (r *Rig) request(line []byte) (q Request, ok bool) {
	r.t.Helper()
	if at := bytes.LastIndex(line, []byte(`{"time":"`)); at > 0 {
		line = line[at:]
	}
	err := json.Unmarshal(lightened(line), &q)
	if _, torn := errors.AsType[*json.SyntaxError](err); torn {
		return Request{}, false
	}
	if err != nil {
		r.t.Fatalf("request log: %v", err)
	}
	return q, true
}

// lightened removes strings of more than 4 MiB from a line of JSON. They are images that no test needs, and parsing one takes a
// second under the race detector.
func lightened(line []byte) []byte {
	const most = 4 << 20
	if len(line) <= most {
		return line
	}
	parts := bytes.Split(line, []byte(`"`))
	for i, p := range parts {
		if len(p) > most {
			parts[i] = nil
		}
	}
	return bytes.Join(parts, []byte(`"`))
}

// Texts returns the texts of a role's messages, in order.
func (q Request) Texts(role llm.Role) []string {
	var out []string
	for _, m := range q.Request.Messages {
		if m.Role == role {
			out = append(out, m.Text())
		}
	}
	return out
}

// Offered returns the names of the tools offered to the model.
func (q Request) Offered() []string {
	var out []string
	for _, t := range q.Request.Tools {
		out = append(out, t.Name)
	}
	return out
}

// Outputs returns the outputs of calls in a request, by call ID.
func (q Request) Outputs() map[string]string {
	out := map[string]string{}
	for _, m := range q.Request.Messages {
		for _, p := range m.Parts {
			if res, ok := p.(*llm.ToolResult); ok {
				out[res.ID] = llm.Message{Parts: res.Content}.Text()
			}
		}
	}
	return out
}

// buffer is output that is read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what has been written so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
