package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/failure"
	"github.com/gantry-agent/gantry/host/internal/launch/limit"
	"github.com/gantry-agent/gantry/host/internal/launch/monitor"
	"github.com/gantry-agent/gantry/host/internal/launch/pool"
	"github.com/gantry-agent/gantry/host/internal/launch/stdio"
)

// Input and Output are what Attach passes to and from a process.
type (
	Input  = stdio.Input
	Output = stdio.Output
)

// Errors of Attach.
var (
	ErrAttached   = stdio.ErrAttached
	ErrHandedOver = stdio.ErrHandedOver
)

// StartError says why a process did not start.
type StartError = failure.StartError

// Exit is how a process ended.
type Exit struct {
	Code         int            // the exit status; 128+n after signal n
	Signal       syscall.Signal // 0: it exited
	User, System time.Duration  // of the process and the children it waited for; in a sandbox, of its whole tree
	MaxRSS       int64          // bytes; the largest of them
	Limit        string         // the limit that ended it, one of the Limit constants; empty: none
	Lost         bool           // its launcher was killed, and it with it
}

// Process is a process tree that was started by a launcher. Its methods may be called concurrently.
type Process struct {
	l           *Launcher
	id          string
	spec        Spec
	granted     Limits                  // of the user, before the plugin's own
	cancelStart context.CancelCauseFunc // ends a start that is under way
	streams     *stdio.Streams
	hold        *hold

	// Set by start, before settled is closed.
	confiner Confiner
	release  func()        // the confiner's
	slot     pool.Slot     // its gantry-launch
	tree     *monitor.Tree // the conversation with that; nil: it was not launched
	limits   *limit.Tree
	reusable bool         // its sandbox may have waited for it, and may wait for another process
	boxed    bool         // it runs in a sandbox, whose first process takes the whole tree with it
	offer    *os.File     // gantry-launch sends a listener in the sandbox over it; nil: there is none
	way      net.Listener // a listener outside of the sandbox; nil: none

	status status // guarded by the launcher's mutex

	begun     chan struct{} // closed when gantry-launch has said that the process runs or has failed to start, or is gone
	settled   chan struct{} // closed when start has returned
	exited    chan struct{} // closed when the process has ended
	gone      chan struct{} // closed when its whole tree has
	pid       int           // after begun
	started   time.Time
	startErr  error // after begun
	exit      Exit  // after exited
	survivors int   // after gone
	kept      bool  // after gone: its gantry-launch became the spare
	told      bool  // Config.OnLimit was called; of watch alone

	mu struct {
		sync.Mutex
		over     bool   // the tree has ended
		endProxy func() // nil: no proxy is served
	}
}

func newProcess(l *Launcher, spec Spec, cancel context.CancelCauseFunc) *Process {
	p := &Process{
		l: l, id: newID(), spec: spec, cancelStart: cancel, hold: newHold(spec.Holder), started: time.Now(),
		begun: make(chan struct{}), settled: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	c := stdio.Config{
		Process: p.id, Plugin: spec.Owner.Plugin, Session: spec.Session, Terminal: spec.Terminal, Stdin: spec.Stdin,
		MergeStderr: spec.MergeStderr, OutputBytes: spec.Grant.Limits.OutputBytes,
		Taken: func() { l.update(p, func(at *status) { at.taken = true }) },
	}
	if spec.Keep != nil {
		c.Memory = spec.Keep.Memory
	}
	p.streams = stdio.New(c)
	return p
}

// running reports whether Spawn has returned the process.
func (p *Process) running() bool {
	select {
	case <-p.settled:
		return p.tree != nil && p.startErr == nil
	default:
		return false
	}
}

// ID identifies the process; it can't be guessed.
func (p *Process) ID() string { return p.id }

// PID is the operating system's id of the process, and of its group and session. It is for display: send signals with Signal, which
// never reach another process that has got the id.
func (p *Process) PID() int { return p.pid }

// Owner says on whose behalf the process runs.
func (p *Process) Owner() Owner { return p.spec.Owner }

// Hosts returns the patterns of the hosts to which the grant of a process limits it; empty: there are none.
func Hosts(p *Process) []string { return slices.Clone(p.spec.Grant.Hosts) }

// MemoryLimit returns the limit on the memory of a process and its descendants, in bytes; 0: there is none.
func MemoryLimit(p *Process) int64 { return p.spec.Grant.Limits.MemoryBytes }

// WholeNetwork reports whether a process is a narrow one of a call that has the whole network.
func WholeNetwork(p *Process) bool {
	return p.spec.Grant.Mode == Narrow && slices.Equal(p.spec.Grant.Hosts, []string{AnyHost})
}

// Quiet reports whether the grant of a process refuses hosts that no rule names, without a question.
func Quiet(p *Process) bool { return p.spec.Grant.Quiet }

// Argv is the program and its arguments.
func (p *Process) Argv() []string { return slices.Clone(p.spec.Argv) }

// Limit describes a limit: the resource, the value, and the name of the user's setting; without a name, the plugin has set the limit.
func (p *Process) Limit(limit string) (what, value, name string) {
	what, value, name = p.spec.Grant.Limits.Setting(limit)
	if _, granted, _ := p.granted.Setting(limit); granted != value {
		name = ""
	}
	return what, value, name
}

// Prepared reports whether the process runs in a sandbox that was prepared.
func (p *Process) Prepared() bool { return p.slot.Prepared }

// Reused reports whether the process runs in a sandbox in which another process was before.
func (p *Process) Reused() bool { return p.slot.Reused }

// Exited is closed when the process has ended. The rest of its tree may still run.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when the whole tree has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Descriptors returns the names of the host's descriptors that are open, in the order in which a plugin receives them.
func (p *Process) Descriptors() []string { return p.streams.Names() }

// Token returns a new one-time token, for which [Launcher.ServeDescriptors] gives the plugin the descriptors, in the order of
// Descriptors. It invalidates an older token. It is empty if there is nothing to receive: the descriptors of a process that is not a
// session are given away for good, and Release closes them.
//
// The descriptors are the host's own ends. They don't block: a reader gets EAGAIN while there is no data. Go's os.NewFile expects
// that; in other languages a plugin can change it.
func (p *Process) Token() string { return p.l.handover.Token(p.streams) }

// Attach feeds stdin from the channel and passes output to emit, one part at a time, until the process has ended and its output has
// been read. It returns how the process ended. Nothing more is read before emit returns, so that a fast process waits in its write.
// While a session has no Attach its output stays in the pipe, and the next Attach reads it.
//
// Attach returns early with the cause of ctx, or with an error of emit; the process keeps running. A closed channel leaves stdin open.
func (p *Process) Attach(ctx context.Context, stdin <-chan Input, emit func(Output) error) (Exit, error) {
	if err := p.streams.Attach(ctx, p.exited, stdin, emit); err != nil {
		return Exit{}, err
	}
	return p.exit, nil
}

// CloseStdin closes the host's end of stdin. A session's stdin ends only when the plugin has closed its own as well; the plugin asks
// for it over Attach.
func (p *Process) CloseStdin() { p.streams.CloseStdin() }

// Resize changes the size of the process's terminal, which sends SIGWINCH to its foreground processes.
func (p *Process) Resize(rows, cols uint16) error {
	err := p.streams.Resize(Size{Rows: rows, Cols: cols})
	switch {
	case errors.Is(err, stdio.ErrNoTerminal):
		return fmt.Errorf("process %d has no terminal to resize", p.pid)
	case err != nil && !errors.Is(err, os.ErrProcessDone):
		return fmt.Errorf("resize the terminal of process %d: %w", p.pid, err)
	}
	return err
}

// Wait returns how the process ended, once it has. It may be called any number of times.
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

// Signal sends a signal to the process, or to its whole group, which may outlive it. The error is os.ErrProcessDone if there is no
// process to receive it.
func (p *Process) Signal(sig syscall.Signal, group bool) error {
	errno := p.tree.Ask(func(seq uint32) []byte {
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

// hide hides files in the sandbox of the process, as soon as it runs. That the process has ended is not an error.
func (p *Process) hide(covers []control.Cover) error {
	select {
	case <-p.begun:
	case <-p.gone:
		return nil
	}
	errno := p.tree.Ask(func(seq uint32) []byte { return control.Hide{Seq: seq, Covers: covers}.Append(nil) })
	if errno == 0 || errno == syscall.ESRCH {
		return nil
	}
	return errno
}

// KillTree ends the process and all its descendants, even those that have left its session: SIGTERM, and after the grace SIGKILL until
// no process is left. If ctx ends first KillTree returns its cause, and the killing continues. Without an error every process has
// ended; an error while ctx is alive says how many could not be killed.
func (p *Process) KillTree(ctx context.Context) error {
	p.cancelStart(ErrEnded)
	<-p.settled
	if p.tree == nil {
		return nil
	}
	grace := p.l.cfg.KillGrace
	p.tree.Kill(grace)
	limit := time.NewTimer(grace + killSlack)
	defer limit.Stop()
	select {
	case <-p.gone:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		// gantry-launch doesn't answer; perhaps it was stopped. The process dies with it.
		p.tree.KillMonitor()
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

// Release says that the plugin knows how the process ended and will not ask again: its record, and the host's descriptors with it, are
// removed as soon as its tree has ended and its output has been read.
func (p *Process) Release() {
	p.l.update(p, func(at *status) { at.released = true })
}
