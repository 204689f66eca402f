//go:build unix

package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/python/internal/kernel"
	"github.com/gantry-agent/gantry/plugins/python/internal/worker"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a host with one kernel, whose cells it answers.
type rig struct {
	t    *testing.T
	host *processtest.Host
	cmd  *process.Cmd
	*kernel.Kernel

	mu     sync.Mutex
	output string
	news   chan struct{} // closed and replaced with new output
	call   func(ctx context.Context, tool string, args json.RawMessage, text *string) (json.RawMessage, error)
	stored map[string]string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python on this machine")
	}
	r := &rig{t: t, host: processtest.Start(t, processtest.Options{}), news: make(chan struct{}), stored: map[string]string{}}
	r.cmd = r.host.Broker("ct").Command(t.Context(), worker.Argv(python)...)
	r.cmd.Dir, r.cmd.Session, r.cmd.Keep = t.TempDir(), true, &process.Keep{}
	if r.Kernel, err = kernel.Start(t.Context(), r.connect(r.cmd), worker.Preamble(0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// connect starts or adopts the process.
func (r *rig) connect(c *process.Cmd) kernel.Worker {
	r.t.Helper()
	in, err1 := c.StdinPipe()
	frames, err2 := c.StdoutPipe()
	output, err3 := c.StderrPipe()
	c.WaitDelay = time.Hour
	if err := errors.Join(err1, err2, err3, c.Start()); err != nil {
		r.t.Fatal(err)
	}
	return kernel.Worker{Process: c, In: in, Frames: frames, Output: output, Background: r.Output}
}

func (r *rig) Output(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output += string(p)
	close(r.news)
	r.news = make(chan struct{})
}

// until waits until the output contains a text.
func (r *rig) until(text string) {
	limit := time.After(time.Minute)
	for {
		r.mu.Lock()
		found, news, all := strings.Contains(r.output, text), r.news, r.output
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-news:
		case <-limit:
			r.t.Errorf("no %q in %q", text, all)
			return
		}
	}
}

func (r *rig) Progress(string, float64, float64) {}
func (r *rig) Call(ctx context.Context, tool string, args json.RawMessage, text *string) (json.RawMessage, error) {
	return r.call(ctx, tool, args, text)
}
func (r *rig) Tools(context.Context) ([]string, error) { return []string{"look"}, nil }
func (r *rig) Artifact(_ context.Context, name, _ string, from io.Reader) (json.RawMessage, error) {
	b, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored[name] = string(b)
	return json.RawMessage(`"stored"`), nil
}

func (r *rig) run(code string) *kernel.Outcome { return r.runUntil(r.t.Context(), code, nil) }

func (r *rig) runUntil(ctx context.Context, code string, deadline <-chan time.Time) *kernel.Outcome {
	r.t.Helper()
	o, err := r.Run(ctx, code, deadline, r)
	if err != nil {
		r.t.Fatalf("%s: %v", code, err)
	}
	return o
}

// result returns the text of the result of a cell.
func (r *rig) result(code string) string {
	r.t.Helper()
	o := r.run(code)
	if o.Failure != nil {
		r.t.Fatalf("%s: %s", code, o.Failure.Traceback)
	}
	for _, d := range o.Displays {
		if d.Result {
			var text string
			if err := json.Unmarshal(d.Data["text/plain"], &text); err != nil {
				r.t.Fatal(err)
			}
			return text
		}
	}
	return ""
}

// after returns a deadline that passes once the output contains a text.
func (r *rig) after(text string) <-chan time.Time {
	deadline := make(chan time.Time, 1)
	go func() { // ends with until
		r.until(text)
		deadline <- time.Now()
	}()
	return deadline
}

func passed() <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Now()
	return c
}

func TestCells(t *testing.T) {
	r := newRig(t)
	if got := r.result("x = 41") + r.result("x + 1"); got != "42" {
		t.Errorf("the result is %q", got)
	}
	o := r.run("print('out')\n1/0")
	if o.Status != "error" || o.Failure == nil || o.Failure.EName != "ZeroDivisionError" || o.Output.String() != "out\n" || o.Count != 3 {
		t.Errorf("%+v", o)
	}
	o = r.run("print('x' * 10_000_000)")
	if o.Output.Total() != 10_000_001 || len(o.Output.Head)+len(o.Output.Tail) > 1<<20 || r.result("1") != "1" {
		t.Errorf("of 10 MB, %d bytes are counted and %d kept", o.Output.Total(), len(o.Output.Head)+len(o.Output.Tail))
	}
	o = r.run("import threading, time\nthreading.Thread(target=lambda: (go.wait(), print('late'))).start() if (go := threading.Event()) else 0\n" +
		"import builtins; builtins.go = go")
	if o.Status != "ok" {
		t.Fatalf("%+v", o.Failure)
	}
	r.run("go.set()")
	r.until("late")
}

// What Python writes to sys.stderr is known, in the order of writing, and none of the markers is shown.
func TestStreams(t *testing.T) {
	r := newRig(t)
	o := r.run("import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')\nos.system('echo d >&2')\nprint('e' * 5000, file=sys.stderr)")
	want := []kernel.Stream{{Text: "a\n"}, {Stderr: true, Text: "b\n"}, {Text: "c\nd\n"}, {Stderr: true, Text: strings.Repeat("e", 5000) + "\n"}}
	if got := o.Output.Streams(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := o.Output.String(); got != "a\nb\nc\nd\n"+want[3].Text {
		t.Errorf("%q", got)
	}
	// Code that knows the markers can only disguise what it prints itself: it ends the cell's output early.
	o = r.run("import os\nw = gantry._worker\nfor end in '\\0\\0\\1\\2x':\n    os.write(1, (w.marker[:-1] + end).encode())\nprint('last')")
	r.until("xlast\n")
	if o.Status != "ok" || r.result("1") != "1" {
		t.Errorf("%+v", o)
	}
	// Threads that write after the end are shown without markers as well.
	r.run("import threading\ngo = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), print('late', file=sys.stderr, flush=True), print('later', flush=True))).start()\n" +
		"threading.Timer(0.01, go.set).start()")
	r.until("late\nlater\n")
}

func TestInfo(t *testing.T) {
	r := newRig(t)
	info, err := r.Info(t.Context())
	if err != nil || info.Version != r.Version || info.Running {
		t.Errorf("%+v, %v", info, err)
	}
	if runtime.GOOS == "linux" && (info.Memory < 1<<20 || info.Memory > 1<<30) {
		t.Errorf("it has %d bytes of memory", info.Memory)
	}
	r.call = func(ctx context.Context, _ string, _ json.RawMessage, _ *string) (json.RawMessage, error) {
		info, err := r.Info(ctx)
		if err != nil || !info.Running {
			t.Errorf("in a cell: %+v, %v", info, err)
		}
		return json.RawMessage("1"), nil
	}
	r.run("gantry.tools.look()")
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Info(t.Context()); err == nil {
		t.Error("a kernel that has ended answers")
	}
}

// A deadline interrupts, and the namespace survives; what can't be interrupted is killed, with what it has printed kept.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.run("x = 7")
	o := r.runUntil(t.Context(), "import time\nprint('some', flush=True)\ntime.sleep(600)", passed())
	if !o.TimedOut || o.Lost() || r.result("x") != "7" {
		t.Errorf("%+v", o)
	}
	deadline := r.after("begun") // the other cell says "some"
	o = r.runUntil(t.Context(), "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\ntime.sleep(600)", deadline)
	if !o.TimedOut || !o.Lost() || o.Output.String() != "begun\n" {
		t.Fatalf("%+v", o)
	}
	<-r.Over()
	if _, err := r.Run(t.Context(), "1", nil, r); err == nil {
		t.Error("a cell ran in a kernel that has ended")
	}
}

// The whole process group is interrupted at the deadline and again after two seconds, and killed after four. A pool of threads that is waited
// for outlives one interrupt, and two of them, one in the other, both.
func TestLadder(t *testing.T) {
	r := newRig(t)
	r.run("import subprocess, time\nfrom concurrent.futures import ThreadPoolExecutor\nx = 7")
	pool := "with ThreadPoolExecutor() as pool:\n    waits = pool.submit(time.sleep, 600)\n    print('begun', flush=True)\n    waits.result()"
	if o := r.runUntil(t.Context(), pool, r.after("begun")); !o.TimedOut || o.Status != "interrupted" || o.Elapsed < secondInterrupt || r.result("x") != "7" {
		t.Errorf("one pool: %+v", o)
	}
	r.run(`shell = subprocess.Popen(["sh", "-c", "trap 'echo the child, too' INT; echo ready; while :; do sleep 1; done"])`)
	r.until("ready")
	o := r.runUntil(t.Context(), `
last = None
for _ in range(2):
    try:
        print("tries", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        now = time.monotonic()
        print("interrupted", "in time" if last is None or now - last > 1.9 else "early", flush=True)
        last = now
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        print("a third time", flush=True)
`, r.after("tries"))
	if text := o.Output.String(); !o.TimedOut || !o.Lost() || o.Elapsed < killAfter || strings.Count(text, "interrupted in time\n") != 2 || strings.Count(text, "the child, too\n") != 2 ||
		strings.Contains(text, "a third time") {
		t.Errorf("%+v", o)
	}
	<-r.Over()
	if e, ok := r.Exit(); !ok || e.Code == 0 {
		t.Errorf("%+v", e)
	}
}

// The ladder, as the package has it.
const (
	secondInterrupt = 2 * time.Second
	killAfter       = 4 * time.Second
)

func TestCancelledCellHasNothingRunning(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	r.call = func(ctx context.Context, _ string, _ json.RawMessage, _ *string) (json.RawMessage, error) {
		cancel()
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}
	o := r.runUntil(ctx, "gantry.tools.look()", nil)
	if o.Lost() || o.Status == "ok" {
		t.Errorf("%+v", o)
	}
	select {
	case <-ended:
	default:
		t.Error("the call goes on after its cell")
	}
	if r.result("1 + 1") != "2" {
		t.Error("the kernel is lost")
	}
}

func TestKill(t *testing.T) {
	for name, code := range map[string]string{
		"killed":        "import os\nprint('before', flush=True)\nos.kill(os.getpid(), 9)",
		"exited":        "import os\nprint('before', flush=True)\nos._exit(3)",
		"without pipes": "import os\nprint('before', flush=True)\nos.closerange(0, 256)",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			o := r.run(code)
			if !o.Lost() || !strings.HasPrefix(o.Output.String(), "before\n") {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	r := newRig(t)
	r.call = func(_ context.Context, tool string, args json.RawMessage, text *string) (json.RawMessage, error) {
		if tool == "deny" {
			return nil, errors.New("denied")
		}
		return json.Marshal(tool + string(args))
	}
	for code, want := range map[string]string{
		"gantry.tools.look(a=1)":                     "'look{\"a\": 1}'",
		"dir(gantry.tools)":                          "['look']",
		"gantry.artifact(b'x' * 1_000_000, 'x.bin')": "'stored'",
		"import asyncio\nlen(await asyncio.gather(*[gantry.tools.aio.look(n=n) for n in range(200)]))": "200",
		"try:\n    gantry.tools.deny()\nexcept gantry.ToolError as e:\n    s = str(e)\ns":              "'denied'",
	} {
		if got := r.result(code); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
	if len(r.stored["x.bin"]) != 1_000_000 {
		t.Errorf("%d bytes are stored", len(r.stored["x.bin"]))
	}
	// A thread that outlives its cell is refused.
	r.run("import threading\ngo = threading.Event()\ndef late():\n    go.wait()\n    gantry.tools.look()\nthread = threading.Thread(target=late)\nthread.start()\n" +
		"threading.Timer(0.05, go.set).start()")
	r.until("the cell has ended")
}

// Displays are bounded, and what a cell shows beyond that is counted.
func TestDisplays(t *testing.T) {
	r := newRig(t)
	o := r.run("for i in range(300):\n    gantry.show(i)\ngantry.output([1], 'a')")
	if len(o.Displays) != 200 || o.Dropped != 100 || len(o.Values) != 1 || o.Values[0].Label != "a" {
		t.Errorf("%d displays, %d dropped, values %v", len(o.Displays), o.Dropped, o.Values)
	}
}

// The next process of the plugin goes on with the worker, also in the middle of a cell.
func TestAdopt(t *testing.T) {
	r := newRig(t)
	r.run("x = 5")
	first := r.Kernel
	run := make(chan struct{})
	go func() { // ends with the kernel
		defer close(run)
		_, _ = first.Run(context.Background(), "import time\nprint('begun', flush=True)\ntime.sleep(600)", nil, r)
	}()
	r.until("begun")
	first.Close() // as if the process had been killed
	<-run
	r.host.NextGeneration()
	found, err := r.host.Broker("").Adopt(t.Context(), "")
	if err != nil || len(found.Processes) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	r.Kernel = kernel.Adopt(r.connect(found.Processes[0].Cmd), first.Version, first.Executable)
	if o := r.run("x + 1"); len(o.Displays) != 1 || string(o.Displays[0].Data["text/plain"]) != `"6"` || strings.Contains(o.Output.String(), "\x00") {
		t.Errorf("%+v", o)
	}
}

func TestStartFails(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
	}{
		"old":    {`echo '{"op":"old","version":"2.7.18"}'; cat >/dev/null`, "Python 2.7.18 is too old"},
		"broken": {"echo no such library >&2; exit 127", "exit code 127 and printed:\nno such library"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rig{t: t, host: processtest.Start(t, processtest.Options{}), news: make(chan struct{})}
			cmd := r.host.Broker("ct").Command(t.Context(), "/bin/sh", "-c", c.script)
			cmd.Dir, cmd.Session = t.TempDir(), true
			_, err := kernel.Start(t.Context(), r.connect(cmd), worker.Preamble(0))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
