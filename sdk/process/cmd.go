package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Size is the size of a terminal. Zero fields mean 24 rows and 80 columns.
type Size struct{ Rows, Cols uint32 }

// Cmd is a prepared or running command. Like an exec.Cmd, it can be started only once. Before Start, it must be used by a
// single goroutine; after Start, Signal, Kill, Resize, Done, Exit, PID and ID are safe for concurrent use.
type Cmd struct {
	Args  []string // the program and its arguments
	Dir   string   // absolute; empty: that of the call
	Env   []string // added to the environment of the grant, as KEY=VALUE; the last value of a key is used
	Unset []string // names of variables that are removed from the environment

	// Stdin is copied to the program. If it is nil, the input is empty. Wait does not wait for a blocked Read.
	Stdin io.Reader
	// Stdout and Stderr receive the output of the program, which is discarded if they are nil. If both are the same comparable
	// value, the program writes to a single pipe, so that the order of its output is preserved.
	Stdout, Stderr io.Writer

	Terminal    *Size // run on a terminal; its output goes to Stdout, and Stderr must be nil
	Session     bool  // the process may outlive the call; ctx bounds Start only
	Keep        *Keep // the session outlives the plugin's process, and the next one adopts it; see [Cmd.Release]
	MergeStderr bool  // write stderr to the pipe of stdout
	ReadOnly    bool  // run under a grant without writes

	// Narrow gives the process less than the call's grant: programs of the system, Folders, a /tmp of its own, and the host's proxy.
	// Dir is /tmp by default. Only on Linux; elsewhere, Start fails.
	Narrow bool
	// Folders are existing folders below the plugin's data or cache folder that a narrow process may write, at the same paths.
	Folders []string
	// QuietNetwork refuses hosts that no rule names, without a question; see [gantryv1.SpawnRequest].
	QuietNetwork bool

	// OfRoot makes a session that of the root of the call's thread: it ends with the root at the latest, is adopted with its processes,
	// and its network is quiet.
	OfRoot bool

	// ReportDenials makes the host note which hosts a declared process tries to reach, even if its block names none.
	ReportDenials bool

	// Limits are stricter limits than the grant's; where the grant's are stricter, they apply. [Exit] names the one that ended
	// the process.
	Limits Limits

	// WaitDelay limits how long Wait waits for the end of the output after the process has ended, counted from the last
	// byte received. 0: DefaultWaitDelay.
	WaitDelay time.Duration

	ctx      context.Context
	broker   *Broker
	adopted  *gantryv1.SpawnResponse
	declared string // name of a declared process; empty: Args are what to start

	wantStdin               *lateWriter
	wantStdout, wantStderr  *lateReader
	started, running        bool
	id                      string
	pid                     int
	ends                    ends
	memory                  []byte
	attached                *attachment
	streams                 []*stream
	copies                  sync.WaitGroup // the goroutines that copy output
	exited                  chan struct{}  // closed when exit or waitErr is set
	once                    sync.Once
	exit                    Exit
	waitErr                 error // set if the host could not report how the process ended
	stopWaiting, stopKiller func()

	mu struct {
		sync.Mutex
		copyErr error
		killed  bool // because ctx ended
		waited  bool
	}
}

// Limits limit a process and its descendants. 0: no limit.
type Limits struct {
	Memory    int64         // bytes of all of them together, without swap; only on Linux: elsewhere, Start fails
	PIDs      int64         // processes and threads of all of them together; only on Linux: elsewhere, Start fails
	CPU       time.Duration // processor time of each, in whole seconds (rounded up), and on Linux also of all of them together
	OpenFiles int64         // of each
	FileSize  int64         // bytes of each file that is written
}

// Start asks the host to start the process. If it could not be started, the error is a *StartError.
func (c *Cmd) Start() error {
	if err := c.check(); err != nil {
		return err
	}
	c.started = true
	resp := c.adopted
	if resp == nil {
		var err error
		if resp, err = c.spawn(); err != nil {
			return err
		}
		if c.ctx.Err() != nil {
			c.discard(resp)
			return fmt.Errorf("start %q: %w", c.Args[0], context.Cause(c.ctx))
		}
	}
	c.id, c.pid = resp.GetProcessId(), int(resp.GetPid())
	c.exited = make(chan struct{})
	// The process may outlive c.ctx, and Wait has to be told of its end even then.
	life, stop := context.WithCancel(context.WithoutCancel(c.ctx))
	c.stopWaiting = stop
	if err := c.connect(life, resp); err != nil {
		stop()
		_ = c.killTree()
		return fmt.Errorf("start %q: %w", c.Args[0], err)
	}
	c.running = true
	// Owned by this Cmd. Ends with the process, with Wait, or with the connection to the host.
	go c.await(life)
	if c.attached != nil {
		// Owned by this Cmd. Ends with the output, with Wait, or with the connection to the host.
		go c.attached.receive(c)
	}
	c.stopKiller = func() {}
	if !c.Session {
		c.killOnEnd()
	}
	c.copy()
	return nil
}

// killOnEnd kills the process when the context ends.
func (c *Cmd) killOnEnd() {
	killed := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(killed)
		select {
		case <-c.exited:
			return
		default:
		}
		c.mu.Lock()
		c.mu.killed = true
		c.mu.Unlock()
		_ = c.killTree() // Wait reports it if this fails
	})
	c.stopKiller = func() {
		if !stop() {
			<-killed
		}
	}
}

func (c *Cmd) check() error {
	switch {
	case c.started:
		return errors.New("process: already started")
	case len(c.Args) == 0 || c.Args[0] == "" && c.adopted == nil:
		return errors.New("process: no program")
	case c.declared != "" && (len(c.Args) != 1 || c.Args[0] != c.declared || c.Dir != "" || c.Env != nil || c.Unset != nil || c.Session || c.ReadOnly || c.Narrow || c.QuietNetwork || c.OfRoot):
		return fmt.Errorf("process: the config block determines what %q starts, so Args, Dir, Env, Unset, Session, ReadOnly, Narrow, QuietNetwork and OfRoot can't be set", c.declared)
	case len(c.Folders) > 0 && !c.Narrow:
		return errors.New("process: Folders requires Narrow")
	case c.OfRoot && !c.Session:
		return errors.New("process: OfRoot requires Session")
	case c.Keep != nil && !c.Session:
		return errors.New("process: Keep requires Session")
	case c.Terminal != nil && (c.Stderr != nil || c.wantStderr != nil):
		return errors.New("process: Stderr is set although a terminal has no separate stderr")
	case c.MergeStderr && (c.Stderr != nil && !sameWriter(c.Stdout, c.Stderr) || c.wantStderr != nil):
		return errors.New("process: Stderr is set although MergeStderr sends it to Stdout")
	}
	if err := c.ctx.Err(); err != nil {
		return fmt.Errorf("start %q: %w", c.Args[0], context.Cause(c.ctx))
	}
	return nil
}

func (c *Cmd) spawn() (*gantryv1.SpawnResponse, error) {
	req := &gantryv1.SpawnRequest{
		CallToken: c.broker.token, Argv: c.Args, Cwd: c.Dir, Unset: c.Unset,
		Stdin:       c.Terminal == nil && (c.Stdin != nil || c.wantStdin != nil),
		MergeStderr: c.Terminal == nil && (c.MergeStderr || sameWriter(c.Stdout, c.Stderr)),
		Session:     c.Session, ReadOnly: c.ReadOnly, Narrow: c.Narrow, Folders: c.Folders, QuietNetwork: c.QuietNetwork,
	}
	if c.declared != "" {
		req.CallToken, req.Argv, req.Declared, req.ReportDenials = "", nil, c.declared, c.ReportDenials
	}
	if c.OfRoot {
		req.Owner = gantryv1.ProcessOwner_PROCESS_OWNER_ROOT
	}
	if l := c.Limits; l != (Limits{}) {
		req.Limits = &gantryv1.ProcessLimits{
			MemoryBytes: l.Memory, Pids: l.PIDs, CpuSeconds: int64((l.CPU + time.Second - 1) / time.Second), OpenFiles: l.OpenFiles, FileBytes: l.FileSize,
		}
	}
	if k := c.Keep; k != nil {
		req.Keep = &gantryv1.Keep{Note: k.Note, MemoryBytes: int32(min(max(k.Memory, -1), math.MaxInt32))}
	}
	for _, kv := range c.Env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("start %q: environment entry without KEY=", c.Args[0])
		}
		if req.Env == nil {
			req.Env = make(map[string]string, len(c.Env))
		}
		req.Env[k] = v
	}
	if c.Terminal != nil {
		req.Terminal = &gantryv1.Terminal{Rows: c.Terminal.Rows, Cols: c.Terminal.Cols}
	}
	ctx, cancel := c.startContext()
	defer cancel()
	resp, err := c.broker.client.Spawn(ctx, req)
	if err != nil && c.ctx.Err() != nil {
		return nil, fmt.Errorf("start %q: %w", c.Args[0], context.Cause(c.ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", c.Args[0], err)
	}
	if e := resp.GetError(); e != nil {
		return nil, &StartError{
			Argv: slices.Clone(c.Args), Message: e.GetMessage(), Errno: syscall.Errno(e.GetErrno()), Denied: e.GetDenied(),
		}
	}
	return resp, nil
}

// startGrace is how much longer than its context Start waits for the host's answer. The host itself ends a start with its call, but
// not with a context that ends earlier, and it may be asking a person.
const startGrace = 2 * time.Second

// startContext is for the request that starts a process. The response has the ID without which nobody can end the process, so it
// is not abandoned as soon as c.ctx ends.
func (c *Cmd) startContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.ctx))
	stop := context.AfterFunc(c.ctx, func() {
		grace := time.NewTimer(startGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// discard ends a process that was started too late. Except for those of a call, the host keeps its record until its descriptors were
// received and it was asked for the end.
func (c *Cmd) discard(resp *gantryv1.SpawnResponse) {
	c.id, c.pid = resp.GetProcessId(), int(resp.GetPid())
	_ = c.killTree() // if it fails, the host is gone, and the process with it
	ctx, cancel := c.requestContext()
	defer cancel()
	if c.broker.socket != "" && resp.GetDescriptorToken() != "" {
		files, err := wire.ReceiveDescriptors(ctx, c.broker.socket, resp.GetDescriptorToken(), len(resp.GetDescriptors()))
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return // the host has removed it
		}
	}
	_, _ = c.broker.client.Wait(ctx, &gantryv1.WaitRequest{ProcessId: c.id})
	if c.Keep != nil {
		_ = c.Release()
	}
}

// sameWriter reports whether a and b are the same writer. It doesn't panic if their type is not comparable.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // the comparison panics if the dynamic type is not comparable
	return a != nil && a == b
}

// await waits for the host's report of how the process ended.
func (c *Cmd) await(ctx context.Context) {
	resp, err := c.broker.client.Wait(ctx, &gantryv1.WaitRequest{ProcessId: c.id})
	if err != nil {
		c.resolve(Exit{}, fmt.Errorf("wait for %q: %w", c.Args[0], err))
		return
	}
	c.resolve(exitOf(resp), nil)
}

func (c *Cmd) resolve(e Exit, err error) {
	c.once.Do(func() {
		c.exit, c.waitErr = e, err
		for _, s := range c.streams {
			s.markExit()
		}
		close(c.exited)
	})
}

// Done returns a channel that is closed when the process has ended. Its output may still be unread, and Wait must still be
// called. nil before Start.
func (c *Cmd) Done() <-chan struct{} { return c.exited }

// Exit returns how the process ended; false while it is running, or if the host doesn't know.
func (c *Cmd) Exit() (Exit, bool) {
	if c.exited == nil {
		return Exit{}, false
	}
	select {
	case <-c.exited:
		return c.exit, c.waitErr == nil
	default:
		return Exit{}, false
	}
}

// PID returns the process ID as seen by the host; for display. 0 before Start.
func (c *Cmd) PID() int { return c.pid }

// ID returns the host's ID of the process; empty before Start.
func (c *Cmd) ID() string { return c.id }

// killWait bounds how long Wait waits after the process tree was killed. The host limits the time of a kill itself, but a
// cancelled call must return even if the host fails to.
const killWait = 10 * time.Second

// Wait waits until the process has ended and its output has been copied, and releases the resources of Start. If the exit
// code is not 0, the error is a *ExitError; if ctx ended the process, the error also matches the cause of ctx.
func (c *Cmd) Wait() error {
	if !c.running {
		return errors.New("process: not started")
	}
	c.mu.Lock()
	again := c.mu.waited
	c.mu.waited = true
	c.mu.Unlock()
	if again {
		return errors.New("process: Wait was called before")
	}
	gone := c.awaitExit()
	c.stopKiller()
	open := c.awaitOutput()
	c.stopWaiting()
	c.ends.close()

	c.mu.Lock()
	copyErr, killed := c.mu.copyErr, c.mu.killed
	c.mu.Unlock()
	var err error
	switch {
	case !gone:
		err = fmt.Errorf("process %q did not end within %v after it was killed", c.Args[0], killWait)
	case c.waitErr != nil:
		err = c.waitErr
	case c.exit.Code != 0:
		err = &ExitError{Exit: c.exit}
	case copyErr != nil:
		err = copyErr
	case open:
		err = ErrWaitDelay
	}
	if killed && err != nil {
		return fmt.Errorf("%w: %w", context.Cause(c.ctx), err)
	}
	return err
}

// awaitExit returns false if the process was killed but did not end in time.
func (c *Cmd) awaitExit() bool {
	if c.Session {
		<-c.exited
		return true
	}
	select {
	case <-c.exited:
		return true
	case <-c.ctx.Done():
	}
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case <-c.exited:
		return true
	case <-t.C:
		return false
	}
}

// awaitOutput waits for the end of the output. What the process wrote is in the pipes already, so output that does not arrive
// within the delay comes from another process. It reports whether the output was still open.
func (c *Cmd) awaitOutput() (open bool) {
	delay := c.WaitDelay
	if delay <= 0 {
		delay = DefaultWaitDelay
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	seen, _ := c.activity()
	var idle time.Duration
	for i := 0; i < len(c.streams); {
		select {
		case <-c.streams[i].ended:
			open = open || c.streams[i].wasCut()
			i++
		case <-t.C:
			now, busy := c.activity()
			if idle += delay; now != seen || busy {
				seen, idle = now, 0
			}
			if idle < delay || idle < attachDelay && c.attached != nil && !c.attached.finished() {
				t.Reset(delay)
				continue
			}
			for _, s := range c.streams {
				s.cut()
			}
		}
	}
	c.copies.Wait()
	return open
}

// activity returns a number that changes whenever bytes are copied. busy reports whether a writer has not returned yet.
func (c *Cmd) activity() (sum int64, busy bool) {
	for _, s := range c.streams {
		sum += s.activity.Load()
		busy = busy || s.busy.Load()
	}
	return sum, busy
}

// Run calls Start and Wait.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// requestTimeout bounds requests about a process, such as a kill.
const requestTimeout = 5 * time.Second

// requestContext is for requests about the process that must be sent even after c.ctx has ended.
func (c *Cmd) requestContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.ctx), requestTimeout)
}

func (c *Cmd) killTree() error {
	ctx, cancel := c.requestContext()
	defer cancel()
	return c.signal(ctx, &gantryv1.SignalRequest{ProcessId: c.id, KillTree: true})
}

func (c *Cmd) signal(ctx context.Context, req *gantryv1.SignalRequest) error {
	resp, err := c.broker.client.Signal(ctx, req)
	if err != nil {
		return fmt.Errorf("signal process %d: %w", c.pid, err)
	}
	if resp.GetGone() {
		return os.ErrProcessDone
	}
	return nil
}

// Signal sends a signal to the process group. It returns os.ErrProcessDone if the process has ended.
func (c *Cmd) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	switch {
	case c.id == "":
		return errors.New("process: not started")
	case !ok || s <= 0:
		return fmt.Errorf("process: unsupported signal %v", sig)
	}
	ctx, cancel := c.requestContext()
	defer cancel()
	return c.signal(ctx, &gantryv1.SignalRequest{ProcessId: c.id, Signal: int32(s)})
}

// Stat is what a process and its descendants use. All fields are 0 if it has ended, or where the system doesn't tell.
type Stat struct {
	Memory int64         // resident, in bytes; pages that processes share count for each of them
	Limit  int64         // on the memory, in bytes; 0: none. A tree that reaches it is ended as a whole
	PIDs   int64         // processes
	CPU    time.Duration // processor time of the processes that are there
}

// Stat returns what the process and its descendants use at present.
func (c *Cmd) Stat(ctx context.Context) (Stat, error) {
	if c.id == "" {
		return Stat{}, errors.New("process: not started")
	}
	r, err := c.broker.client.ProcessStat(ctx, &gantryv1.ProcessStatRequest{ProcessId: c.id})
	if err != nil {
		return Stat{}, fmt.Errorf("ask what %q uses: %w", c.Args[0], err)
	}
	return Stat{Memory: r.GetMemoryBytes(), Limit: r.GetMemoryLimitBytes(), PIDs: r.GetPids(), CPU: time.Duration(r.GetCpuMs()) * time.Millisecond}, nil
}

// Resize changes the size of the terminal.
func (c *Cmd) Resize(size Size) error {
	switch {
	case c.id == "":
		return errors.New("process: not started")
	case c.Terminal == nil:
		return errors.New("process: no terminal")
	}
	ctx, cancel := c.requestContext()
	defer cancel()
	return c.signal(ctx, &gantryv1.SignalRequest{
		ProcessId: c.id, Resize: &gantryv1.Terminal{Rows: size.Rows, Cols: size.Cols},
	})
}

// Kill ends the whole process tree, including processes that have left the group. It is not an error if the process has
// already ended.
func (c *Cmd) Kill() error {
	if c.id == "" {
		return errors.New("process: not started")
	}
	if err := c.killTree(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// TerminalFile returns the file of the terminal. It returns nil before Start, without a terminal, and if the host can't pass
// descriptors. Wait closes the file.
func (c *Cmd) TerminalFile() *os.File { return c.ends.terminal }

// Memory returns the memory that Keep requested. It is initially zero. The process that adopts the session gets it as the
// previous process left it, even if that was killed. Memory returns nil before Start and if the host can't pass descriptors.
// The memory must not be used after Release.
func (c *Cmd) Memory() []byte { return c.memory }

// Release declares that the session will not be adopted again, so that the host forgets it once its processes have ended. Call
// it when the session has ended and its output has been read. The result of Memory must not be used afterwards. Release may be
// called more than once.
func (c *Cmd) Release() error {
	if c.id == "" {
		return errors.New("process: not started")
	}
	memory := c.memory
	c.memory = nil
	err := unmapMemory(memory)
	ctx, cancel := c.requestContext()
	defer cancel()
	if _, rerr := c.broker.client.Release(ctx, &gantryv1.ReleaseRequest{ProcessIds: []string{c.id}}); rerr != nil {
		err = errors.Join(err, fmt.Errorf("release process %d: %w", c.pid, rerr))
	}
	return err
}
