package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/limit"
)

// Names of descriptors.
const (
	Stdin    = "stdin"
	Stdout   = "stdout"
	Stderr   = "stderr"
	Terminal = "terminal"
)

// Exit is how a process ended.
type Exit struct {
	Code         int            // a signal n is 128+n
	Signal       syscall.Signal // 0: it ended by itself
	User, System time.Duration  // of the process and the children it waited for; in a box, of all of its tree
	MaxRSS       int64          // bytes; the largest of them
	Limit        string         // the limit that ended it, one of the Limit constants; empty: none
	Lost         bool           // its launcher was killed, and it with it
}

// Process is a process tree that was started by a launcher. Its methods may be called concurrently.
type Process struct {
	l           *Launcher
	id          string
	spec        Spec
	names       []string                // of the descriptors, in order; after settled
	cancelStart context.CancelCauseFunc // ends a start that is under way

	// Set by start, before settled is closed.
	conn      *os.File // the control socket; its end is the lifeline
	monitor   *monitor
	limits    *limit.Tree
	release   func() // the confiner's
	waits     bool   // its box may have waited for it, and may wait for another
	box       *ready // what it was taken from, if it may be kept; nil: it ends with the process
	confiner  Confiner
	madeAhead bool         // its box waited for it
	reused    bool         // another process was in its box before
	launched  bool         // monitor runs, and watch is its reader
	boxed     bool         // a box's first process takes the whole tree with it
	listens   bool         // in its box, for the proxy
	offer     *os.File     // where the listener comes from
	way       net.Listener // one that was made outside of the box; nil: none

	place place // guarded by the launcher's mutex

	begun     chan struct{} // closed when the launcher has said started or failed, or is gone
	settled   chan struct{} // closed when start has returned
	exited    chan struct{} // closed when the process has ended
	gone      chan struct{} // closed when its whole tree has
	pid       int           // after begun
	started   time.Time
	startErr  error // after begun
	exit      Exit  // after exited
	survivors int   // after gone
	kept      bool  // after gone: its launcher became the spare
	toldLimit bool  // of watch alone

	write struct {
		sync.Mutex      // one frame at a time
		freed      bool // the launcher is not this process's any more
	}
	mu struct {
		sync.Mutex
		files    map[string]*os.File // the host's ends
		handed   bool                // they went to the plugin for good
		attached bool
		token    string
		carried  int64 // output that Attach has passed on, and what it has dropped
		dropped  int64
		seq      uint32
		replies  map[uint32]chan syscall.Errno
		over     bool // gone: no reply comes any more
		endProxy func()
		hold     holding
	}
}

func newProcess(l *Launcher, spec Spec, cancel context.CancelCauseFunc) *Process {
	p := &Process{
		l: l, id: newID(), spec: spec, cancelStart: cancel,
		begun: make(chan struct{}), settled: make(chan struct{}),
		exited: make(chan struct{}), gone: make(chan struct{}), started: time.Now(),
	}
	p.mu.hold = holding{holder: spec.Holder, free: make(chan struct{})}
	p.mu.files = make(map[string]*os.File)
	p.mu.replies = make(map[uint32]chan syscall.Errno)
	return p
}

// running reports whether Spawn has returned it.
func (p *Process) running() bool {
	select {
	case <-p.settled:
		return p.launched && p.startErr == nil
	default:
		return false
	}
}

// ID identifies the process; it can't be guessed.
func (p *Process) ID() string { return p.id }

// PID is the operating system's number, and that of the process's group and session. For display: send signals with
// Signal, which can't hit a stranger.
func (p *Process) PID() int { return p.pid }

// Owner says on whose behalf it runs.
func (p *Process) Owner() Owner { return p.spec.Owner }

// Argv is what was started.
func (p *Process) Argv() []string { return slices.Clone(p.spec.Argv) }

// Limits are those of its grant.
func (p *Process) Limits() Limits { return p.spec.Grant.Limits }

// Session reports whether it may outlive its call.
func (p *Process) Session() bool { return p.spec.Session }

// Descriptors names the host's ends that are open, in the order in which they are handed over.
func (p *Process) Descriptors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return p.mu.files[name] == nil })
}

// Exited is closed when the process has ended. Others of its tree may still run.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when its whole tree has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Wait returns when the process has ended, with how it did. It may be called any number of times.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.exited:
		return p.exit, nil
	default:
	}
	select {
	case <-p.exited:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// Signal sends a signal to the process, or to its whole group. The group may outlive the process. When nobody is there
// any more the error is os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal, group bool) error {
	errno := p.ask(func(seq uint32) []byte {
		return control.Signal{Seq: seq, Number: uint32(sig), Group: group}.Append(nil)
	})
	switch errno {
	case 0:
		return nil
	case syscall.ESRCH:
		return os.ErrProcessDone
	}
	return fmt.Errorf("signal process %d: %w", p.pid, errno)
}

// hide has covers laid in the box of the process, as soon as it runs. When it has ended that is no error.
func (p *Process) hide(covers []control.Cover) error {
	select {
	case <-p.begun:
	case <-p.gone:
		return nil
	}
	errno := p.ask(func(seq uint32) []byte { return control.Hide{Seq: seq, Covers: covers}.Append(nil) })
	if errno == 0 || errno == syscall.ESRCH {
		return nil
	}
	return errno
}

// ask sends the launcher a frame with a number, and returns what it replies; ESRCH: nothing of the process is left.
func (p *Process) ask(frame func(seq uint32) []byte) syscall.Errno {
	reply := make(chan syscall.Errno, 1)
	p.mu.Lock()
	if p.mu.over {
		p.mu.Unlock()
		return syscall.ESRCH
	}
	p.mu.seq++
	seq := p.mu.seq
	p.mu.replies[seq] = reply
	p.mu.Unlock()
	p.send(frame(seq))
	select {
	case errno := <-reply:
		return errno
	case <-p.gone:
	}
	select {
	case errno := <-reply: // it came before the end
		return errno
	default:
		return syscall.ESRCH
	}
}

// KillTree ends the process and all that it has started, wherever that has hidden: SIGTERM, after the grace SIGKILL until
// nothing is left. When ctx ends first KillTree returns its cause, and the killing goes on. On success everything has
// ended; an error without ctx's end says how many processes could not be killed.
func (p *Process) KillTree(ctx context.Context) error {
	p.cancelStart(ErrEnded)
	<-p.settled
	if !p.launched {
		return nil
	}
	grace := p.l.cfg.KillGrace
	p.send(control.Kill{GraceMS: uint32(grace.Milliseconds())}.Append(nil))
	bound := time.NewTimer(grace + killSlack)
	defer bound.Stop()
	select {
	case <-p.gone:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-bound.C:
		// It doesn't answer: stopped, perhaps. The target dies with it.
		p.killMonitor()
		select {
		case <-p.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if p.survivors > 0 {
		return fmt.Errorf("kill the tree of process %d: %d processes could not be killed (another user's, or hanging in the kernel)",
			p.pid, p.survivors)
	}
	return nil
}

// Release says that its plugin knows how the process ended, so that nobody will ask about it again: its record, and the
// host's descriptors with it, go as soon as its tree has ended and its output was taken.
func (p *Process) Release() {
	p.l.note(p, func(at *place) { at.released = true })
}

// start brings the process up. When it returns an error nothing is left of it.
func (p *Process) start(ctx context.Context, confiner Confiner) error {
	defer close(p.settled)
	c := Confinement{Owner: p.spec.Owner, Argv: p.spec.Argv, Env: p.spec.Env, Cwd: p.spec.Cwd, Launcher: p.l.cfg.LauncherPath, End: p.kill, Hide: p.hide}
	p.confiner = confiner
	err := p.l.settle(&p.spec)
	if err == nil {
		p.release, err = confiner.Confine(ctx, p.spec.Grant, p.spec.ReadOnly, &c)
	}
	p.waits, p.way = c.Waits && p.l.keeps(&p.spec), c.Listener
	if err == nil {
		err = enforceable(runtime.GOOS, p.spec.Grant)
	}
	if err == nil {
		p.limits, err = p.l.limits.Prepare(p.id, p.spec.Grant.Limits, c.Box != nil, p.limitReached)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.listens = c.Box != nil && c.Box.Listen
	if err == nil && (p.listens || p.way != nil) && p.l.cfg.Proxy == nil {
		err = &UnsupportedError{
			Mode: p.spec.Grant.Mode, What: "there is no network proxy here, through which alone the process may reach the network",
			Next: `set network { mode = "none" } or "full"`,
		}
	}
	var order []byte
	if err == nil {
		o := p.order(&c)
		order, err = p.launch(ctx, o, p.waiting(o))
	}
	if err != nil {
		p.over()
		close(p.exited)
		close(p.gone)
		return err
	}
	p.launched, p.boxed = true, c.Box != nil
	p.l.work.Go(p.watch)
	stop := context.AfterFunc(ctx, p.abort)
	p.send(order)
	<-p.begun
	if !stop() || ctx.Err() != nil {
		p.abort()
		<-p.gone
		return context.Cause(ctx)
	}
	if p.startErr != nil {
		<-p.gone
		return p.startErr
	}
	p.limits.Started(p.monitor.process.Pid)
	if p.listens || p.way != nil {
		if err := p.serveProxy(ctx); err != nil {
			p.abort()
			<-p.gone
			return err
		}
	}
	return nil
}

// serveProxy has the process's way out served until its tree has ended.
func (p *Process) serveProxy(ctx context.Context) error {
	ln, err := p.way, error(nil)
	if ln == nil {
		ln, err = p.listener()
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.over { // it has ended already, and with it what listened
			return nil
		}
		return fmt.Errorf("take over what listens in the box: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.mu.Lock()
	p.mu.endProxy = cancel
	if p.mu.over {
		cancel()
	}
	p.mu.Unlock()
	p.l.work.Go(func() { // ends with ctx, which ends with the tree
		defer ln.Close()
		p.l.cfg.Proxy(ctx, p, ln)
	})
	return nil
}

// order is what the launcher is told.
func (p *Process) order(c *Confinement) *control.Order {
	return &control.Order{
		Argv: c.Argv, Env: c.Env, Cwd: c.Cwd, Terminal: p.spec.Terminal != nil, Rlimits: append(c.Rlimits, p.limits.Rlimits...),
		Cgroup: p.limits.Cgroup, Groups: p.limits.Groups, Box: c.Box,
		LifelineGraceMS: uint32(min(lifelineGrace, p.l.cfg.KillGrace).Milliseconds()),
		Again:           p.frees(c),
	}
}

// frees reports whether the launcher may serve another process after this one, in its box where it has one. Groups end with it, and so
// do boxes with a way out of their own.
func (p *Process) frees(c *Confinement) bool {
	if p.spec.Grant.Limits.OfTree() || p.way != nil {
		return false
	}
	return c.Box == nil || p.waits && !c.Box.Listen
}

// waiting is the box of an order, if that may be one that has waited; else it is made with the process, in the process's groups.
func (p *Process) waiting(o *control.Order) *control.Box {
	if o.Box == nil || o.Cgroup != "" || len(o.Groups) > 0 || p.spec.Grant.Limits.MaxPids > 0 || !p.waits {
		return nil
	}
	return o.Box
}

// abort ends the tree at once.
func (p *Process) abort() {
	p.send(control.Kill{}.Append(nil))
	p.write.Lock()
	defer p.write.Unlock()
	if !p.write.freed {
		p.conn.Close()
	}
}

// send writes a frame, or what is left of one. An error means that the launcher is gone, which watch sees too.
func (p *Process) send(frame []byte) {
	p.write.Lock()
	defer p.write.Unlock()
	if !p.write.freed {
		p.conn.Write(frame)
	}
}

// killMonitor kills the process's launcher.
func (p *Process) killMonitor() {
	p.write.Lock()
	defer p.write.Unlock()
	if !p.write.freed {
		p.monitor.process.Kill()
	}
}

// free takes the launcher away from a process of which nothing is left: from here on it is another's.
func (p *Process) free() *monitor {
	p.write.Lock()
	defer p.write.Unlock()
	p.write.freed = true
	return p.monitor
}

// watch reads what the launcher says until it has ended, and then closes the case.
func (p *Process) watch() {
	in := control.Reader{Read: bufio.NewReaderSize(p.conn, 512).Read}
	said, err := p.listen(&in)
	if said.free {
		p.freed(&said)
		return
	}
	var last string
	if errors.Is(err, control.ErrText) {
		last = in.Text(4096)
	}
	// The socket is closed, or useless. A launcher that lives sees its end, too.
	p.conn.Close()
	stuck := time.AfterFunc(p.l.cfg.KillGrace+killSlack, func() { p.monitor.process.Kill() })
	state, _ := p.monitor.process.Wait()
	stuck.Stop()
	if !said.started && p.startErr == nil {
		p.startErr = launcherError(state, last)
	}
	if !said.begun {
		close(p.begun)
	}
	if !said.exited {
		if said.started {
			killSession(p.pid)
			p.l.cfg.Logger.Warn("a launcher ended before its process", "id", p.id, "pid", p.pid, "state", fmt.Sprint(state), "text", last)
		}
		p.exit = Exit{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL, Lost: true}
	}
	if p.boxed && said.exited {
		p.ofBox(&said)
	}
	if p.launched && said.started {
		p.tellLimit(p.endedBy(p.exit))
	}
	p.over()
	if p.boxed && said.started {
		p.l.ahead(p)
	}
	if p.boxed || !said.exited {
		close(p.exited)
	}
	close(p.gone)
}

// freed closes the case of a process of which nothing is left. Its launcher serves another, and its box does. Both wait for that before
// anybody hears of the end.
func (p *Process) freed(said *heard) {
	m := p.free()
	if p.boxed {
		p.ofBox(said)
		p.tellLimit(p.exit.Limit)
	}
	p.over()
	switch {
	case !p.boxed:
		p.kept = p.l.keepMonitor(m)
	case p.box == nil || !p.l.keepBox(p):
		p.l.ahead(p)
	}
	if p.boxed {
		close(p.exited)
	}
	close(p.gone)
}

// ofBox completes how a process in a box ended: there all of its tree counts.
func (p *Process) ofBox(said *heard) {
	if said.used != nil {
		p.exit.User, p.exit.System, p.exit.MaxRSS = said.used.User, said.used.System, said.used.MaxRSS
	}
	p.exit.Limit = p.endedBy(p.exit)
}

// over gives back what the tree held, once it has ended or was never started.
func (p *Process) over() {
	p.mu.Lock()
	p.mu.over = true
	if p.mu.endProxy != nil {
		p.mu.endProxy()
	}
	p.mu.Unlock()
	if p.offer != nil {
		p.offer.Close()
	}
	if p.way != nil {
		p.way.Close()
	}
	if p.limits != nil {
		p.limits.Close()
	}
	if p.release != nil {
		p.release()
	}
	p.l.note(p, func(at *place) { at.ended = true })
}

// kill ends the tree at once, whatever state it is in.
func (p *Process) kill() {
	p.cancelStart(ErrEnded)
	select {
	case <-p.begun:
		p.send(control.Kill{}.Append(nil))
	default:
	}
}

// limitReached kills the tree at once, because it has reached a limit.
func (p *Process) limitReached() {
	select {
	case <-p.begun:
		p.send(control.Kill{}.Append(nil))
	case <-p.gone:
	}
}

// endedBy returns the limit that ended the process; empty: none did.
func (p *Process) endedBy(e Exit) string {
	return p.limits.EndedBy(limit.Usage{Code: e.Code, Signal: int(e.Signal), CPU: e.User + e.System})
}

// tellLimit says, once, which limit has ended the process or what it has left running.
func (p *Process) tellLimit(limit string) {
	if limit == "" || p.toldLimit || p.l.cfg.Limited == nil {
		return
	}
	p.toldLimit = true
	p.l.cfg.Limited(p, limit)
}

// heard is what the launcher has said so far.
type heard struct {
	begun, started, exited bool
	free                   bool
	used                   *Exit // what the whole tree has used; nil: it was not said
}

func (p *Process) listen(in *control.Reader) (said heard, err error) {
	for {
		frame, err := in.Next()
		if err != nil {
			return said, err
		}
		switch frame.Kind {
		case control.KindStarted:
			m, err := frame.Started()
			if err != nil || said.begun {
				return said, control.ErrMalformed
			}
			p.pid = int(m.PID)
			said.begun, said.started = true, true
			close(p.begun)
		case control.KindFailed:
			m, err := frame.Failed()
			if err != nil || said.begun {
				return said, control.ErrMalformed
			}
			p.startErr = p.failure(m)
			said.begun = true
			close(p.begun)
		case control.KindExited:
			m, err := frame.Exited()
			if err != nil || said.exited || !said.started {
				return said, control.ErrMalformed
			}
			p.exit = exitOf(m)
			said.exited = true
			if !p.boxed { // else when the box was cleared up: who hears of the end relies on that
				p.exit.Limit = p.endedBy(p.exit)
				p.tellLimit(p.exit.Limit)
				close(p.exited)
			}
		case control.KindReplied:
			m, err := frame.Replied()
			if err != nil {
				return said, err
			}
			p.mu.Lock()
			reply := p.mu.replies[m.Seq]
			delete(p.mu.replies, m.Seq)
			p.mu.Unlock()
			if reply != nil {
				reply <- syscall.Errno(m.Errno)
			}
		case control.KindUsed:
			if m, err := frame.Used(); err == nil {
				used := exitOf(control.Exited{UserMicros: m.UserMicros, SystemMicros: m.SystemMicros, MaxRSSKiB: m.MaxRSSKiB})
				said.used = &used
			}
		case control.KindLeft:
			if m, err := frame.Left(); err == nil {
				p.survivors = int(m.Count)
			}
		case control.KindFree:
			if _, err := frame.Free(); err != nil || !said.exited {
				return said, control.ErrMalformed
			}
			said.free = true
			return said, nil
		}
	}
}

func exitOf(m control.Exited) Exit {
	e := Exit{
		Code: int(m.Code), Signal: syscall.Signal(m.Signal), MaxRSS: int64(m.MaxRSSKiB) << 10,
		User: time.Duration(m.UserMicros) * time.Microsecond, System: time.Duration(m.SystemMicros) * time.Microsecond,
	}
	if m.Signal != 0 {
		e.Code = 128 + int(m.Signal)
	}
	return e
}

// failure translates what the launcher says about a start.
func (p *Process) failure(m control.Failed) error {
	errno := syscall.Errno(m.Errno)
	tooLittle := func(limit string) error {
		e := newStartError(m.Op.String(), p.spec.Argv[0], errno)
		what, value, name := p.spec.Grant.Limits.Setting(limit)
		e.Message = fmt.Sprintf("the limit on %s, %s, leaves too little to start anything; raise limits.%s", what, value, name)
		return e
	}
	if limit := p.endedBy(Exit{Code: 1}); limit != "" {
		return tooLittle(limit)
	}
	switch m.Op {
	case control.OpVersion:
		return fmt.Errorf("%s is from another build than this host; install gantry and gantry-launch from one build",
			p.l.cfg.LauncherPath)
	case control.OpChdir:
		return newStartError(m.Op.String(), p.spec.Cwd, errno)
	case control.OpConfine:
		return &StartError{Op: m.Op.String(), Message: boxProblem(m.Text, errno), Errno: errno}
	case control.OpLimit:
		if errno == syscall.EPROTO {
			return tooLittle(LimitMemory)
		}
	}
	return newStartError(m.Op.String(), p.spec.Argv[0], errno)
}

func launcherError(state *os.ProcessState, text string) error {
	if text == "" {
		return fmt.Errorf("gantry-launch ended before it had started anything: %v", state)
	}
	return fmt.Errorf("gantry-launch crashed before it had started anything: %v: %s", state, text)
}

// closeFiles closes the host's ends.
func (p *Process) closeFiles() {
	p.mu.Lock()
	files := p.mu.files
	p.mu.files = nil
	p.mu.Unlock()
	for _, f := range files {
		f.Close()
	}
}

// CloseStdin closes the host's end of stdin. A session's stdin ends only when the plugin and the host have both closed
// theirs; the plugin asks for it over Attach.
func (p *Process) CloseStdin() {
	p.mu.Lock()
	f := p.mu.files[Stdin]
	delete(p.mu.files, Stdin)
	p.mu.Unlock()
	if f != nil {
		f.Close()
	}
}
