package launch

import (
	"os"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/monitor"
	"github.com/gantry-agent/gantry/host/internal/launch/pool"
)

// Preparer is a [Confiner] that can design a sandbox before there is a process for it.
type Preparer interface {
	// Prepare returns the sandbox in which Confine would put the program now.
	Prepare(g Grant, readOnly bool, program string) (*control.Box, error)
}

// prepareSoonDelay is how long a model may think before a sandbox is prepared for a command that it may run.
const prepareSoonDelay = 50 * time.Millisecond

// PrepareNow prepares a sandbox for a process that a thread is about to start, in the background, unless one waits for the thread. A
// process under another grant than that which grant returns does not get this sandbox.
func (l *Launcher) PrepareNow(thread string, grant func() (Grant, error)) {
	l.pool.Expect(thread, 0, l.designLater(grant))
}

// PrepareSoon is like PrepareNow, for a process that a thread may start once its model has answered. It starts after a delay, in which the
// request to the model has the processors to itself; a model may also answer at once and need no process.
func (l *Launcher) PrepareSoon(thread string, grant func() (Grant, error)) {
	l.pool.Resume(thread)
	l.pool.Expect(thread, prepareSoonDelay, l.designLater(grant))
}

// DropPrepared ends the sandboxes that wait for processes of a thread. None is prepared until its next process.
func (l *Launcher) DropPrepared(thread string) { l.pool.Rest(thread) }

// Ready waits until everything that is being prepared for the next process is ready, and returns the number of sandboxes that wait.
func (l *Launcher) Ready() int { return l.pool.Ready() }

// designLater returns the design of a sandbox for a grant that is determined when the sandbox is created.
func (l *Launcher) designLater(grant func() (Grant, error)) pool.Design {
	return func() (*control.Box, error) {
		g, err := grant()
		if err != nil {
			return nil, err
		}
		confiner, err := l.confiner(g)
		if err != nil {
			return nil, err
		}
		return l.design(confiner, g, false, "")
	}
}

// prepareNext prepares a sandbox after p has ended, in the background, for another process with the same grant.
func (l *Launcher) prepareNext(p *Process) {
	if preparerOf(p.confiner, p.spec.Grant) == nil {
		return
	}
	// The host, which has the result to pass on, gets the processors first.
	l.pool.Prepare(p.spec.Owner.Thread, spareDelay, func() (*control.Box, error) {
		return l.design(p.confiner, p.spec.Grant, p.spec.ReadOnly, p.spec.Argv[0])
	})
}

// design returns the sandbox of a process that is to come; nil: it can't be prepared.
func (l *Launcher) design(c Confiner, g Grant, readOnly bool, program string) (*control.Box, error) {
	preparer := preparerOf(c, g)
	if preparer == nil || g.Limits.MaxPids > 0 || l.limits.InGroups(g.Limits) {
		return nil, nil
	}
	return preparer.Prepare(g, readOnly, program)
}

// preparerOf returns the confiner as a Preparer; nil: it is none, or a sandbox with this grant can't be prepared.
func preparerOf(c Confiner, g Grant) Preparer {
	if preparer, ok := c.(Preparer); ok && g.reusable() {
		return preparer
	}
	return nil
}

// reusable reports whether a sandbox with this grant is of use to more than one process: a file is opened for one process only, and
// the processes of a narrow sandbox have namespaces of their own.
func (g Grant) reusable() bool {
	return g.Mode != FullAccess && g.Mode != Narrow && len(g.Opened) == 0
}

// reuses reports whether the sandbox of a process may be prepared, or may be kept for another.
func (l *Launcher) reuses(s *Spec) bool {
	return l.cfg.PreparedTime > 0 && s.Owner.Thread != "" && s.Grant.reusable()
}

// startMonitor starts a gantry-launch.
func (l *Launcher) startMonitor() (*monitor.Monitor, error) {
	var held *os.File
	for _, k := range l.keepers() {
		if f := k.LockFile(); f != nil {
			defer f.Close()
			held = f
		}
	}
	return monitor.Start(l.cfg.LauncherPath, held)
}
