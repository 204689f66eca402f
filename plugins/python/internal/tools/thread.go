package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/plugins/python/internal/interpreter"
	"github.com/gantry-agent/gantry/plugins/python/internal/kernel"
	"github.com/gantry-agent/gantry/plugins/python/internal/worker"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	// unlimited: the pipes of a kernel are read as long as it exists.
	unlimited = 365 * 24 * time.Hour
	// stopTime limits the end of a kernel that nobody waits for.
	stopTime = 15 * time.Second
)

// thread is a thread with the kernel that it has or will have.
type thread struct {
	mu struct {
		sync.Mutex
		kernel *running // nil: none
		next   string   // session ID of the next one
		lost   string   // why the last one ended, until the model knows
		known  bool     // this process has had a kernel of the thread
	}
}

// kernelKey is the key of the thread's state under which the session ID of its kernel is stored until the model knows that the kernel
// is gone. A later process of the plugin that finds it, but no kernel, says so.
const kernelKey = "kernel"

// recall finds out in the background whether an earlier process has had a kernel whose end the model does not know of. It sends why that
// kernel has ended; "": there was none.
func (t *thread) recall(c *tool.Call) <-chan string {
	why := make(chan string, 1)
	t.mu.Lock()
	known := t.mu.known
	t.mu.Unlock()
	if known {
		why <- ""
		return why
	}
	go func() { // ends with the call
		if _, _, found, err := c.State().Get(c.Hard(), kernelKey); err == nil && found {
			why <- "it ended with an earlier process of gantry or of the plugin"
			return
		}
		why <- ""
	}()
	return why
}

// record stores in the background that the thread has a kernel. The caller calls the function that it returns before the call ends.
func (t *thread) record(c *tool.Call, id string) (wait func()) {
	var work sync.WaitGroup
	work.Go(func() { _, _ = c.State().Put(c.Hard(), kernelKey, []byte(id)) }) // otherwise only its loss is not told
	return work.Wait
}

// told removes the record: the model knows that the kernel is gone.
func (t *thread) told(c *tool.Call) {
	_ = c.State().Delete(c.Hard(), kernelKey) // otherwise its loss is told twice
}

// running is a kernel of a thread.
type running struct {
	*kernel.Kernel
	note
	pid     int // as the host sees it
	session *tool.Session
	idle    *time.Timer
	warned  atomic.Bool // the model knows that the call's permissions are not the kernel's
}

// note describes a kernel to the next process of the plugin.
type note struct {
	ID        string `json:"id"` // of the session
	Python    string `json:"python"`
	Digest    string `json:"digest"` // of the grant
	Escalated bool   `json:"escalated,omitempty"`
}

// newSessionID returns an ID that no other kernel has had: approvals and input for one must not reach another.
func newSessionID() string { return "python-" + strings.ToLower(rand.Text()[:10]) }

// running returns the thread's kernel; nil: there is none.
func (t *thread) running() *running {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.kernel
}

// nextID returns the session ID of the next kernel.
func (t *thread) nextID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.next
}

// takeLost returns why the previous kernel has ended, once.
func (t *thread) takeLost() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	why := t.mu.lost
	t.mu.lost = ""
	return why
}

// forget removes a kernel that has ended or is about to. why is for the model; empty: it knows.
func (t *thread) forget(r *running, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.kernel == r {
		t.mu.kernel, t.mu.lost = nil, why
	}
	r.idle.Stop()
}

// stop ends the thread's kernel if it has the given ID; empty: any.
func (t *thread) stop(ctx context.Context, id, why string) error {
	r := t.running()
	if r == nil || id != "" && r.ID != id {
		return nil
	}
	t.forget(r, why)
	return r.Stop(ctx)
}

// add makes a kernel that of the thread, and waits for its end in the background.
func (t *thread) add(env *tool.Env, r *running, idle time.Duration) {
	r.idle = time.AfterFunc(idle, func() {
		if r.Busy() {
			return // the end of the cell sets the timer again
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		_ = t.stop(ctx, r.ID, fmt.Sprintf("it was not used for %v", idle)) // otherwise the host ends it with the thread
	})
	t.mu.Lock()
	t.mu.kernel, t.mu.next, t.mu.known = r, newSessionID(), true
	t.mu.Unlock()
	// Owned by the kernel: it ends with it, or with this process.
	go func() {
		select {
		case <-r.Over():
		case <-env.Context().Done():
			return
		}
		why := "it has ended"
		if e, ok := r.Exit(); ok {
			why = ended(e)
			r.session.Exited(e.Code)
		} else {
			r.session.Lost()
		}
		t.forget(r, why)
	}()
}

// ended says how a kernel has ended.
func ended(e process.Exit) string {
	switch {
	case e.Limit != "":
		return fmt.Sprintf("it was ended by its %s limit", e.Limit)
	case e.Signal != 0:
		return fmt.Sprintf("it was ended by a signal (%v)", e.Signal)
	}
	return fmt.Sprintf("it exited with code %d", e.Code)
}

// python returns the interpreter for a folder.
func (p *pythonPlugin) python(dir string) (string, error) {
	return p.finder.Find(p.config.Interpreter, dir)
}

// What to do about an interpreter that doesn't start, and about one that is too old.
const (
	nextBroken = "repair that environment, or set `interpreter` in the plugin's block to another one"
	nextOld    = "install Python " + interpreter.Minimum + " or later, or set `interpreter` in the plugin's block to one"
)

// startError is a kernel that could not be started, for the model.
func startError(python string, err error) *tool.Result {
	text := fmt.Sprintf("python failed: %s could not be started: %v", python, err)
	if e, ok := errors.AsType[*process.StartError](err); ok {
		text = fmt.Sprintf("python failed: %s could not be started: %s", python, e.Message)
	}
	next := nextBroken
	if e, ok := errors.AsType[*kernel.StartError](err); ok && e.Old != "" {
		next = nextOld
	}
	return tool.Errorf("%s\nNext: %s.", text, next)
}

// start starts the thread's kernel under the grant of a call.
func (p *pythonPlugin) start(ctx context.Context, c *tool.Call, t *thread, n note) (*running, error) {
	cmd := c.Command(ctx, worker.Argv(n.Python)...)
	cmd.Dir, cmd.Session, cmd.WaitDelay = c.Cwd(), true, unlimited
	if runtime.GOOS == "linux" {
		cmd.Limits.Memory = p.memory
	}
	cmd.Env = []string{"GANTRY_CI=1", "GANTRY_THREAD_ID=" + c.ThreadID()}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	cmd.Keep = &process.Keep{Note: b}
	r := &running{note: n}
	var session atomic.Pointer[tool.Session]
	w, err := connect(cmd, &session)
	if err != nil {
		return nil, err
	}
	r.pid = cmd.PID()
	if r.Kernel, err = kernel.Start(ctx, w, worker.Preamble(p.memory)); err != nil {
		return nil, err
	}
	if real := r.Executable; !strings.HasPrefix(n.Python, c.Cwd()+string(filepath.Separator)) {
		p.finder.Resolved(n.Python, c.Cwd(), real)
	}
	r.session = c.Thread().OpenSession(n.ID, c.ID(), "Python "+r.Version)
	session.Store(r.session)
	t.add(c.Env(), r, p.config.Idle)
	return r, nil
}

// connect starts a command and returns it as a worker. What it prints between cells is output of the session.
func connect(cmd *process.Cmd, session *atomic.Pointer[tool.Session]) (kernel.Worker, error) {
	w := kernel.Worker{Process: cmd, Background: func(p []byte) {
		if s := session.Load(); s != nil {
			_, _ = s.Write(p)
		}
	}}
	in, err1 := cmd.StdinPipe()
	frames, err2 := cmd.StdoutPipe()
	output, err3 := cmd.StderrPipe()
	w.In, w.Frames, w.Output = in, frames, output
	if err := errors.Join(err1, err2, err3); err != nil {
		return w, err
	}
	return w, cmd.Start()
}

// adopt continues with the kernels of an earlier process.
func (p *pythonPlugin) adopt(_ context.Context, a *tool.Adoption) error {
	// A thread has one kernel: the latest. Any other was about to be ended.
	slices.SortFunc(a.Processes, func(x, y process.Adopted) int { return y.Started.Compare(x.Started) })
	var errs []error
	for _, x := range a.Processes {
		if err := p.adoptOne(a, x); err != nil {
			errs = append(errs, fmt.Errorf("kernel of call %s: %w", x.CallID, err))
		}
	}
	return errors.Join(errs...)
}

func (p *pythonPlugin) adoptOne(a *tool.Adoption, x process.Adopted) error {
	var n note
	parsed := json.Unmarshal(x.Note, &n)
	t := p.thread(a.Thread.ID())
	if r := t.running(); parsed == nil && r != nil && r.ID == n.ID {
		return nil // as long as an earlier process runs, each request adopts again what this one has already
	}
	var session atomic.Pointer[tool.Session]
	x.Cmd.WaitDelay = unlimited
	w, err := connect(x.Cmd, &session)
	if err != nil {
		return err
	}
	if parsed != nil || t.running() != nil {
		return errors.Join(errors.New("it is not the thread's kernel"), x.Cmd.Kill())
	}
	r := &running{note: n, pid: x.Cmd.PID(), Kernel: kernel.Adopt(w, "", n.Python)}
	r.session = a.Thread.ResumeSession(n.ID, x.CallID, "Python", 0)
	session.Store(r.session)
	t.add(a.Env, r, p.config.Idle)
	return nil
}
