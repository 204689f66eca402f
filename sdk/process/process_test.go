//go:build unix

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/protobuf/proto"
)

// both runs a test over descriptors and over the Attach stream: a plugin must not notice which it is.
func both(t *testing.T, f func(t *testing.T, h *processtest.Host)) {
	for _, attach := range []bool{false, true} {
		t.Run(map[bool]string{false: "descriptors", true: "attach"}[attach], func(t *testing.T) {
			t.Parallel()
			f(t, processtest.Start(t, processtest.Options{Attach: attach}))
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		c := h.Broker("token-1").Command(t.Context(), "sh", "-c", `echo "$GREETING in $(pwd)"; echo oops >&2`)
		c.Dir = "/"
		c.Env = []string{"GREETING=no", "GREETING=hello"}
		c.Unset = []string{"SECRET"}
		out, err := c.Output()
		if err != nil || string(out) != "hello in /\n" {
			t.Errorf("output %q, %v", out, err)
		}
		if exit, ok := c.Exit(); !ok || exit.Code != 0 {
			t.Errorf("exit %+v, %v", exit, ok)
		}
		if c.PID() == 0 || c.ID() == "" {
			t.Error("process has no ids")
		}
		req := h.Spawned()[0]
		if req.GetCallToken() != "token-1" || req.GetStdin() || req.GetSession() || len(req.GetUnset()) != 1 || req.GetEnv()["GREETING"] != "hello" {
			t.Errorf("request %v", req)
		}
	})
}

// A program without limits of its own has none in the request.
func TestLimitsAreRequested(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		for _, limits := range []process.Limits{{}, {Memory: 1, PIDs: 2, CPU: 2*time.Second + 1, OpenFiles: 4, FileSize: 5}} {
			c := h.Broker("token-1").Command(t.Context(), "true")
			c.Limits = limits
			if err := c.Run(); err != nil {
				t.Error(err)
			}
		}
		spawned := h.Spawned()
		if got := spawned[0].GetLimits(); got != nil {
			t.Errorf("no limits: %v", got)
		}
		want := &gantryv1.ProcessLimits{MemoryBytes: 1, Pids: 2, CpuSeconds: 3, OpenFiles: 4, FileBytes: 5}
		if got := spawned[1].GetLimits(); !proto.Equal(got, want) {
			t.Errorf("limits %v, want %v", got, want)
		}
	})
}

func TestExitError(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		_, err := h.Broker("").Command(t.Context(), "sh", "-c", "echo broken >&2; exit 3").Output()
		e, ok := errors.AsType[*process.ExitError](err)
		if !ok || e.Code != 3 || string(e.Stderr) != "broken\n" || err.Error() != "exit status 3" {
			t.Errorf("error %#v", err)
		}
		err = h.Broker("").Command(t.Context(), "sh", "-c", "kill -TERM $$").Run()
		if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Code != 128+15 || e.Signal != syscall.SIGTERM {
			t.Errorf("error %#v", err)
		}
	})
}

func TestStderrBeginningAndEnd(t *testing.T) {
	t.Parallel()
	h := processtest.Start(t, processtest.Options{})
	_, err := h.Broker("").Command(t.Context(), "sh", "-c",
		`printf first >&2; head -c 100000 /dev/zero | tr '\0' x >&2; printf last >&2; exit 1`).Output()
	e, ok := errors.AsType[*process.ExitError](err)
	if !ok {
		t.Fatalf("error %#v", err)
	}
	s := string(e.Stderr)
	if !strings.HasPrefix(s, "first") || !strings.HasSuffix(s, "last") || len(s) > 33<<10 || !strings.Contains(s, fmt.Sprintf("omitting %d bytes", 100009-32768)) {
		t.Errorf("stderr of %d bytes: %.20q … %.20q", len(s), s, s[len(s)-20:])
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		big := strings.Repeat("0123456789abcde\n", 64<<10) // more than pipes and windows hold
		c := h.Broker("").Command(t.Context(), "cat")
		c.Stdin = strings.NewReader(big)
		out, err := c.Output()
		if err != nil || string(out) != big {
			t.Errorf("%d bytes came back of %d, %v", len(out), len(big), err)
		}
		// A program that does not read to the end is no error.
		c = h.Broker("").Command(t.Context(), "sh", "-c", "read line; echo $line")
		c.Stdin = strings.NewReader(big)
		if out, err := c.Output(); err != nil || string(out) != "0123456789abcde\n" {
			t.Errorf("output %q, %v", out, err)
		}
	})
}

func TestCombinedOutputKeepsTheOrder(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		out, err := h.Broker("").Command(t.Context(), "sh", "-c", "for i in 1 2 3; do echo out $i; echo err $i >&2; done").CombinedOutput()
		if want := "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"; err != nil || string(out) != want {
			t.Errorf("output %q, %v", out, err)
		}
		var same bytes.Buffer
		c := h.Broker("").Command(t.Context(), "sh", "-c", "echo a; echo b >&2; echo c")
		c.Stdout, c.Stderr = &same, &same
		if err := c.Run(); err != nil || same.String() != "a\nb\nc\n" {
			t.Errorf("output %q, %v", same.String(), err)
		}
	})
}

func TestPipes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		c := h.Broker("").Command(t.Context(), "sh", "-c", `while read w; do echo "got $w"; echo "saw $w" >&2; done`)
		in, err1 := c.StdinPipe()
		out, err2 := c.StdoutPipe()
		errs, err3 := c.StderrPipe()
		if err := errors.Join(err1, err2, err3, c.Start()); err != nil {
			t.Fatal(err)
		}
		r, e := bufio.NewReader(out), bufio.NewReader(errs)
		for _, w := range []string{"one", "two"} {
			if _, err := io.WriteString(in, w+"\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := r.ReadString('\n'); err != nil || line != "got "+w+"\n" {
				t.Errorf("line %q, %v", line, err)
			}
			if line, err := e.ReadString('\n'); err != nil || line != "saw "+w+"\n" {
				t.Errorf("line %q, %v", line, err)
			}
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
			t.Errorf("rest %q, %v", rest, err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestCancelKillsTheTree(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		c := h.Broker("").Command(ctx, "sh", "-c", "echo ready; sleep 1000 & wait")
		out, _ := c.StdoutPipe()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		cancel(why)
		err := c.Wait()
		if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Signal != syscall.SIGKILL || !errors.Is(err, why) {
			t.Errorf("error %v", err)
		}
	})
}

func TestStartAfterTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	h := processtest.Start(t, processtest.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	if err := h.Broker("").Command(ctx, "true").Start(); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("error %v", err)
	}
	if n := len(h.Spawned()); n > 0 {
		t.Errorf("%d processes were asked for", n)
	}
}

// lateHost answers when the caller no longer wants the answer.
type lateHost struct {
	*processtest.Host
	late    func(context.Context) // is called between a start and its answer
	started chan string           // IDs
}

func (h lateHost) Spawn(ctx context.Context, req *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	resp, err := h.Host.Spawn(ctx, req)
	if err == nil {
		h.started <- resp.GetProcessId()
		h.late(ctx)
	}
	return resp, err
}

// Only the answer names the process, so what is started as the context ends would have no owner.
func TestContextEndsWhileTheHostStartsTheProcess(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*process.Cmd){
		"process": func(*process.Cmd) {},
		"session": func(c *process.Cmd) { c.Session = true },
		"kept":    func(c *process.Cmd) { c.Session, c.Keep = true, &process.Keep{Memory: 4096} },
	} {
		for _, attach := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/attach %v", name, attach), func(t *testing.T) {
				t.Parallel()
				why := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				started := make(chan string, 1)
				h := processtest.Start(t, processtest.Options{Attach: attach, Service: func(h *processtest.Host) gantryv1.HostServiceServer {
					return lateHost{h, func(context.Context) { cancel(why) }, started}
				}})
				c := h.Broker("").Command(ctx, "sleep", "1000")
				set(c)
				if err := c.Start(); !errors.Is(err, why) {
					t.Errorf("error %v", err)
				}
				// Wait would be answered at the end of the test, whose host kills what runs.
				stat, err := h.ProcessStat(t.Context(), &gantryv1.ProcessStatRequest{ProcessId: <-started})
				if err != nil || stat.GetPids() != 0 {
					t.Errorf("the process runs: %v, %v", stat, err)
				}
				if kept, err := h.Adopt(t.Context(), &gantryv1.AdoptRequest{}); err != nil || len(kept.GetProcesses()) > 0 {
					t.Errorf("it can be adopted: %v, %v", kept, err)
				}
			})
		}
	}
}

// A host that does not answer is not waited for.
func TestContextEndsAndTheHostDoesNotAnswer(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	h := processtest.Start(t, processtest.Options{Service: func(h *processtest.Host) gantryv1.HostServiceServer {
		return lateHost{h, func(ctx context.Context) {
			cancel(why)
			<-ctx.Done()
		}, make(chan string, 1)}
	}})
	if err := h.Broker("").Command(ctx, "sleep", "1000").Start(); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// A shell that left something running in the background has ended; its caller must not wait for the rest.
func TestGrandchildKeepsTheOutputOpen(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		var out bytes.Buffer
		c := h.Broker("").Command(t.Context(), "sh", "-c", "echo before; sleep 1000 &")
		c.Stdout, c.WaitDelay = &out, 50*time.Millisecond
		// Over the stream it is the host that ends what does not end by itself.
		want := map[bool]error{true: process.ErrWaitDelay}[h.Descriptors() != ""]
		if err := c.Run(); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if out.String() != "before\n" {
			t.Errorf("output %q", out.String())
		}
		// One that writes without a pause is cut off as well: by bytes.
		c = h.Broker("").Command(t.Context(), "sh", "-c", "yes &")
		c.WaitDelay = 50 * time.Millisecond
		if err := c.Run(); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		// The program's own failure is worth more than what it left behind.
		c = h.Broker("").Command(t.Context(), "sh", "-c", "sleep 1000 & exit 7")
		c.WaitDelay = 50 * time.Millisecond
		err := c.Run()
		if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Code != 7 {
			t.Errorf("error %v", err)
		}
	})
}

// What a program wrote before its end arrives, however slowly its reader takes it.
func TestSlowReaderLosesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		w := &gatedWriter{step: make(chan struct{})}
		c := h.Broker("").Command(t.Context(), "sh", "-c", "head -c 65536 /dev/zero")
		c.Stdout, c.WaitDelay = w, 200*time.Millisecond // enough for output to come on a busy machine
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }() // owned by this test
		late := time.After(2 * c.WaitDelay)
		for {
			step := w.step
			if late != nil {
				step = nil // the reader takes its time first
			}
			select {
			case <-late:
				late = nil
			case step <- struct{}{}:
			case err := <-ended:
				if err != nil || w.n != 65536 {
					t.Errorf("%d bytes, %v", w.n, err)
				}
				return
			}
		}
	})
}

// gatedWriter takes what is written when it is told to.
type gatedWriter struct {
	step chan struct{}
	n    int
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.step
	w.n += len(p)
	return len(p), nil
}

func TestWriterThatFailsDoesNotBlockTheProgram(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		full := errors.New("full")
		c := h.Broker("").Command(t.Context(), "sh", "-c", "head -c 1000000 /dev/zero")
		c.Stdout = writerFunc(func([]byte) (int, error) { return 0, full })
		if err := c.Run(); !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSession(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		ctx, cancel := context.WithCancel(t.Context())
		c := h.Broker("").Command(ctx, "sh", "-c", `while read w; do echo "got $w"; done; echo end`)
		c.Session = true
		in, _ := c.StdinPipe()
		out, _ := c.StdoutPipe()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cancel() // the call is over, the session is not
		if _, err := io.WriteString(in, "word\n"); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		if line, err := r.ReadString('\n'); err != nil || line != "got word\n" {
			t.Errorf("line %q, %v", line, err)
		}
		if _, over := c.Exit(); over {
			t.Error("the session has ended with its call")
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(r); string(rest) != "end\n" || err != nil {
			t.Errorf("rest %q, %v", rest, err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestSignal(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		c := h.Broker("").Command(t.Context(), "sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done")
		out, _ := c.StdoutPipe()
		if err := c.Signal(os.Interrupt); err == nil {
			t.Error("signal before start")
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := c.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if line, err := r.ReadString('\n'); line != "caught\n" || err != nil {
			t.Errorf("line %q, %v", line, err)
		}
		err := c.Wait()
		if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Code != 5 {
			t.Errorf("error %v", err)
		}
		if err := c.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("error %v, want %v", err, os.ErrProcessDone)
		}
		if err := c.Kill(); err != nil {
			t.Errorf("kill after the end: %v", err)
		}
	})
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		c := h.Broker("").Command(t.Context(), "sh", "-c", "stty size; read x; stty size; [ -t 1 ] && echo terminal")
		c.Terminal = &process.Size{Rows: 30, Cols: 100}
		in, _ := c.StdinPipe()
		out, _ := c.StdoutPipe()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if (c.TerminalFile() == nil) != (h.Descriptors() == "") {
			t.Error("the terminal's file is there, or not, against the transport")
		}
		r := bufio.NewReader(out)
		if line, err := r.ReadString('\n'); line != "30 100\r\n" || err != nil {
			t.Errorf("line %q, %v", line, err)
		}
		if err := c.Resize(process.Size{Rows: 40, Cols: 120}); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(in, "go\n"); err != nil {
			t.Fatal(err)
		}
		if err := in.Close(); err != nil { // does not end the output
			t.Error(err)
		}
		rest, err := io.ReadAll(r)
		if want := "go\r\n40 120\r\nterminal\r\n"; string(rest) != want || err != nil {
			t.Errorf("rest %q, %v", rest, err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestStartError(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		err := h.Broker("").Command(t.Context(), "/no/such/program").Start()
		e, ok := errors.AsType[*process.StartError](err)
		if !ok || !errors.Is(err, fs.ErrNotExist) || e.Denied || !strings.Contains(err.Error(), `start "/no/such/program": no such file`) {
			t.Errorf("error %v", err)
		}
	})
	h := processtest.Start(t, processtest.Options{Refuse: func(*gantryv1.SpawnRequest) *gantryv1.SpawnError {
		return &gantryv1.SpawnError{Message: "rejected by user", Denied: true}
	}})
	err := h.Broker("").Command(t.Context(), "true").Run()
	if e, ok := errors.AsType[*process.StartError](err); !ok || !e.Denied || err.Error() != `start "true": rejected by user` {
		t.Errorf("error %v", err)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	h := processtest.Start(t, processtest.Options{})
	for name, f := range map[string]func(*process.Cmd) error{
		"no program":        func(c *process.Cmd) error { c.Args = nil; return c.Start() },
		"terminal's stderr": func(c *process.Cmd) error { c.Terminal, c.Stderr = &process.Size{}, io.Discard; return c.Start() },
		"merged and set":    func(c *process.Cmd) error { c.MergeStderr, c.Stderr = true, io.Discard; return c.Start() },
		"environment":       func(c *process.Cmd) error { c.Env = []string{"NAME"}; return c.Start() },
		"wait before start": func(c *process.Cmd) error { return c.Wait() },
		"kill before start": func(c *process.Cmd) error { return c.Kill() },
		"resize":            func(c *process.Cmd) error { return c.Resize(process.Size{}) },
		"output and stdout": func(c *process.Cmd) error { c.Stdout = io.Discard; _, err := c.Output(); return err },
		"combined and set":  func(c *process.Cmd) error { c.Stderr = io.Discard; _, err := c.CombinedOutput(); return err },
		"pipe and reader":   func(c *process.Cmd) error { c.Stdin = os.Stdin; _, err := c.StdinPipe(); return err },
		"started twice":     func(c *process.Cmd) error { return errors.Join(mustRun(t, c), c.Start()) },
		"waited twice":      func(c *process.Cmd) error { return errors.Join(mustRun(t, c), c.Wait()) },
		"pipe after start":  func(c *process.Cmd) error { mustRun(t, c); _, err := c.StdoutPipe(); return err },
	} {
		if err := f(h.Broker("").Command(t.Context(), "true")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func mustRun(t *testing.T, c *process.Cmd) error {
	t.Helper()
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return nil
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		first := h.Broker("call").Command(t.Context(), "sh", "-c", `while read w; do echo "got $w"; done`)
		first.Session, first.Keep = true, &process.Keep{Note: []byte("mine"), Memory: 4096}
		in, _ := first.StdinPipe()
		out, _ := first.StdoutPipe()
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(in, "one\n")
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "got one\n" {
			t.Fatalf("line %q, %v", line, err)
		}
		travels := h.Descriptors() != ""
		if got := first.Memory(); travels != (len(got) == 4096) {
			t.Fatalf("%d bytes of memory", len(got))
		}
		if travels {
			copy(first.Memory(), "read so far")
		}
		plain := h.Broker("call").Command(t.Context(), "sleep", "1000")
		plain.Session = true
		if err := plain.Start(); err != nil {
			t.Fatal(err)
		}
		_ = out.Close() // this process lets go
		h.NextGeneration("call-7")
		if e, ok := errors.AsType[*process.ExitError](plain.Wait()); !ok || e.Signal != syscall.SIGKILL {
			t.Error("a session that was not kept lives on")
		}

		a, err := h.Broker("").Adopt(t.Context(), "thread-9")
		if err != nil || len(a.Processes) != 1 || !slices.Equal(a.Unanswered, []string{"call-7"}) || a.EarlierRuns {
			t.Fatalf("adopted %+v, %v", a, err)
		}
		p := a.Processes[0]
		if p.ThreadID != "thread-9" || p.CallID != "call-1" || string(p.Note) != "mine" || p.Started.IsZero() {
			t.Errorf("adopted %+v", p)
		}
		c := p.Cmd
		in2, _ := c.StdinPipe()
		out2, _ := c.StdoutPipe()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if travels {
			if got := c.Memory(); string(got[:11]) != "read so far" {
				t.Errorf("memory begins with %q", got[:11])
			}
			_, _ = io.WriteString(in2, "two\n")
			if line, err := bufio.NewReader(out2).ReadString('\n'); err != nil || line != "got two\n" {
				t.Errorf("line %q, %v", line, err)
			}
		}
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
		for _, cmd := range []*process.Cmd{c, first} {
			if e, ok := errors.AsType[*process.ExitError](cmd.Wait()); !ok || e.Signal != syscall.SIGKILL {
				t.Error("not killed")
			}
		}
		for range 2 {
			if err := c.Release(); err != nil || c.Memory() != nil {
				t.Errorf("release: %v", err)
			}
		}
		if a, err := h.Broker("").Adopt(t.Context(), ""); err != nil || len(a.Processes) != 0 {
			t.Errorf("released, and adopted again: %+v, %v", a, err)
		}
	})
}

func TestKeepRequiresSession(t *testing.T) {
	t.Parallel()
	c := process.New(nil, "", "").Command(t.Context(), "true")
	c.Keep = &process.Keep{}
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "Keep requires Session") {
		t.Errorf("error = %v", err)
	}
}

func TestHostDisappears(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h *processtest.Host) {
		c := h.Broker("").Command(t.Context(), "sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		h.Stop()
		if err := c.Wait(); err == nil {
			t.Error("no error although nobody could tell how the process ended")
		}
		if _, ok := c.Exit(); ok {
			t.Error("an exit is known")
		}
	})
}
