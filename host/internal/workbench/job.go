package workbench

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Limits of commands and processes.
const (
	defaultCap     = 1 << 20          // bytes of output per stream. Compatible with codex.
	defaultTimeout = 10 * time.Second // of command/exec. Compatible with codex.
	timedOut       = 124              // exit code after a timeout, as of timeout(1). Compatible with codex.
	maxInput       = 8 << 20          // bytes of input that wait for a process to read them; beyond it writes fail
	endTime        = 15 * time.Second // for ending what a process has left
)

// Causes for which a job ends before its process does.
var (
	errTerminated = errors.New("the client ended the process")
	errTimeout    = errors.New("the process exceeded its time limit")
)

// order is a process to run for a client.
type order struct {
	spec      launch.Spec
	runner    Runner
	id        string        // the client's; empty: the client can't refer to it
	cap       uint64        // bytes of output per stream
	timeout   time.Duration // 0: none
	streamIn  bool
	streamOut bool
	delta     func(s protocol.OutputStream, dataBase64 string, capReached bool)
}

// job is a running process.
type job struct {
	order
	proc  Process
	owner launch.Owner
	ctx   context.Context // ends when the process is to be killed
	stop  context.CancelCauseFunc
	in    *input // nil: the client sends no input
}

// result is how a job has ended.
type result struct {
	code    int
	streams [2]capture // stdout and stderr
}

// capture is the beginning of a stream.
type capture struct {
	kept   []byte
	passed uint64 // bytes that were kept or sent
	full   bool   // the rest was dropped
}

func (c capture) text() string { return strings.ToValidUTF8(string(c.kept), "\uFFFD") }

// table is the running jobs of a family of methods, by the client's ids.
type table struct {
	mu   sync.Mutex
	jobs map[string]*job // nil: being started
}

func (t *table) get(id string) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.jobs[id]
}

// reserve reports whether an id was free. From now on it is not.
func (t *table) reserve(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.jobs[id]; ok {
		return false
	}
	if t.jobs == nil {
		t.jobs = map[string]*job{}
	}
	t.jobs[id] = nil
	return true
}

func (t *table) set(id string, j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs[id] = j
}

func (t *table) free(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.jobs, id)
}

// start starts a process. The caller has reserved its id, and calls run, which frees it.
func (b *Bench) start(ctx context.Context, o order) (*job, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	j := &job{order: o, owner: launch.Owner{Plugin: owner, Call: uuid.Must(uuid.NewV7()).String()}}
	j.spec.Owner = j.owner
	var err error
	if j.proc, err = o.runner.Spawn(ctx, j.spec); err != nil {
		b.leave()
		return nil, notStarted(err)
	}
	j.ctx, j.stop = context.WithCancelCause(b.life)
	if o.streamIn {
		j.in = newInput(o.spec.Terminal != nil)
	}
	return j, nil
}

// notStarted returns the error of a process that did not start, with its next step if it has one.
func notStarted(err error) error {
	message, next := hint.Split(err)
	if u, ok := errors.AsType[*launch.UnsupportedError](err); ok {
		message, next = u.What, u.Next
	} else if f, ok := errors.AsType[diag.Failure](err); ok && len(f.Diagnostics) > 0 {
		message, next = f.Diagnostics[0].Summary, f.Diagnostics[0].Next
	}
	out := rpc.Errorf(rpc.Internal, "failed to spawn command: %s", message)
	if next == "" {
		return out
	}
	return hint.With(out, next)
}

// run passes input and output until the process has ended, with everything it has started. Output is passed on before run returns.
func (b *Bench) run(j *job) (result, error) {
	defer b.leave()
	defer j.stop(nil)
	if j.timeout > 0 {
		defer time.AfterFunc(j.timeout, func() { j.stop(errTimeout) }).Stop()
	}
	var work sync.WaitGroup
	defer work.Wait()
	done, ended := context.WithCancel(context.Background()) // ends with Attach
	defer ended()
	work.Go(func() { // kills the process if the job ends first
		select {
		case <-done.Done():
			return
		case <-j.ctx.Done():
		}
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := j.proc.KillTree(ctx); err != nil {
			b.cfg.Logger.Warn("a client's process was not ended", "err", err)
		}
	})
	var stdin chan launch.Input
	if j.in != nil {
		stdin = make(chan launch.Input)
		work.Go(func() { j.in.feed(done, stdin) })
	}
	var r result
	exit, err := j.proc.Attach(context.Background(), stdin, func(o launch.Output) error {
		j.emit(&r, o)
		return nil
	})
	ended()
	r.code = exit.Code
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if eerr := j.runner.EndCall(ctx, j.owner); eerr != nil {
		b.cfg.Logger.Warn("a client's process has left others that were not ended", "err", eerr)
	}
	switch cause := context.Cause(j.ctx); {
	case errors.Is(cause, errClosed):
		return r, errClosed
	case errors.Is(cause, errTimeout):
		r.code = timedOut
	}
	return r, err
}

// emit keeps output or sends it on, up to the limit.
func (j *job) emit(r *result, o launch.Output) {
	c, name := &r.streams[0], protocol.StdoutStream
	if o.Stderr {
		c, name = &r.streams[1], protocol.StderrStream
	}
	if c.full {
		return
	}
	data := o.Data[:min(uint64(len(o.Data)), j.cap-c.passed)]
	c.passed += uint64(len(data))
	c.full = c.passed == j.cap
	if j.streamOut {
		j.delta(name, base64.StdEncoding.EncodeToString(data), c.full)
		return
	}
	c.kept = append(c.kept, data...)
}

// environ returns an environment with a client's changes.
func environ(base []string, changes map[string]*string) ([]string, error) {
	out := slices.Clone(base)
	for name, value := range changes {
		if name == "" || strings.ContainsAny(name, "=\x00") || value != nil && hasNUL(*value) {
			return nil, rpc.Errorf(rpc.InvalidParams, "env has an invalid variable %q", name)
		}
		out = slices.DeleteFunc(out, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		if value != nil {
			out = append(out, name+"="+*value)
		}
	}
	return out, nil
}

// size checks the size of a terminal.
func size(field string, s protocol.TerminalSize) (*launch.Size, error) {
	if s.Rows == 0 || s.Cols == 0 {
		return nil, rpc.Errorf(rpc.InvalidParams, "%s: rows and cols must be greater than 0", field)
	}
	return &launch.Size{Rows: s.Rows, Cols: s.Cols}, nil
}

// terminal returns the size of the terminal that a request asks for; nil: none.
func terminal(tty bool, asked *protocol.TerminalSize) (*launch.Size, error) {
	switch {
	case asked == nil && tty:
		return &launch.Size{}, nil
	case asked == nil:
		return nil, nil
	case !tty:
		return nil, rpc.Errorf(rpc.InvalidParams, "size requires tty: true")
	}
	return size("size", *asked)
}

// timeout checks a time limit of a request.
func timeout(ms *int64, def time.Duration) (time.Duration, error) {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	switch {
	case ms == nil:
		return def, nil
	case *ms < 0:
		return 0, rpc.Errorf(rpc.InvalidParams, "timeoutMs must not be negative, got %d", *ms)
	}
	return max(time.Duration(min(*ms, most))*time.Millisecond, time.Nanosecond), nil // 0: at once
}

// write sends a client's input to a process.
func (t *table) write(what, id string, delta *string, closeStdin bool) error {
	if delta == nil && !closeStdin {
		return rpc.Errorf(rpc.InvalidParams, "deltaBase64 or closeStdin is required")
	}
	var data []byte
	if delta != nil {
		var err error
		if data, err = base64.StdEncoding.DecodeString(*delta); err != nil {
			return rpc.Errorf(rpc.InvalidParams, "deltaBase64 is invalid: %s", err)
		}
	}
	j := t.get(id)
	switch {
	case j == nil:
		return rpc.Errorf(rpc.InvalidRequest, "no active %s with %s %q", what, idField(what), id)
	case j.in == nil:
		return rpc.Errorf(rpc.InvalidRequest, "%s %q does not stream its input: start it with streamStdin or tty", idField(what), id)
	}
	return j.in.add(data, closeStdin)
}

// resize changes the size of a process's terminal.
func (t *table) resize(what, id string, to protocol.TerminalSize) error {
	s, err := size("size", to)
	if err != nil {
		return err
	}
	j := t.get(id)
	switch {
	case j == nil:
		return rpc.Errorf(rpc.InvalidRequest, "no active %s with %s %q", what, idField(what), id)
	case j.spec.Terminal == nil:
		return rpc.Errorf(rpc.InvalidRequest, "%s %q has no terminal to resize: start it with tty", idField(what), id)
	}
	if err := j.proc.Resize(s.Rows, s.Cols); err != nil {
		return rpc.Errorf(rpc.Internal, "%s", err)
	}
	return nil
}

// terminate ends a process, and does not wait for that.
func (t *table) terminate(what, id string) error {
	j := t.get(id)
	if j == nil {
		return rpc.Errorf(rpc.InvalidRequest, "no active %s with %s %q", what, idField(what), id)
	}
	j.stop(errTerminated)
	return nil
}

// idField returns the name of the field that identifies a process.
func idField(what string) string {
	if what == commandExec {
		return "processId"
	}
	return "processHandle"
}

// input is what a client has sent to a process and the process has not read.
type input struct {
	terminal bool
	mu       sync.Mutex
	data     []byte
	end      bool          // closed by the client
	ready    chan struct{} // has an element when there may be something to send
}

func newInput(terminal bool) *input { return &input{terminal: terminal, ready: make(chan struct{}, 1)} }

// endOfFile is the character that ends the input of a terminal, unless the program has changed that.
const endOfFile = 4

// add appends to the input. It does not wait.
func (in *input) add(data []byte, end bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.end:
		return rpc.Errorf(rpc.InvalidRequest, "stdin is closed")
	case len(in.data)+len(data) > maxInput:
		return hint.With(rpc.Errorf(rpc.InvalidRequest, "deltaBase64: %d bytes wait for the process to read them, which is too much", len(in.data)), "write the rest later")
	}
	in.data, in.end = append(in.data, data...), end
	if end && in.terminal {
		in.data = append(in.data, endOfFile)
	}
	select {
	case in.ready <- struct{}{}:
	default:
	}
	return nil
}

// feed passes the input on until ctx ends.
func (in *input) feed(ctx context.Context, to chan<- launch.Input) {
	for {
		select {
		case <-in.ready:
		case <-ctx.Done():
			return
		}
		in.mu.Lock()
		m := launch.Input{Data: in.data, Close: in.end}
		in.data = nil
		in.mu.Unlock()
		select {
		case to <- m:
		case <-ctx.Done():
			return
		}
	}
}
