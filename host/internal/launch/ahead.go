package launch

import (
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// A box takes most of the time in which a short command runs. So once a command has ended in one, the next is made while the
// model thinks, for a command under the same grant: with its mounts, and a stage of gantry-launch in it that waits. What the
// command may do beyond the mounts (Landlock, the filter of system calls, limits) comes with its order as ever.
//
// Meanwhile anybody may change the machine. A box is taken only for a command for which the very same would be made now, and
// while all its mounts are where they were: the kernel takes a mount away when what it lies on is removed, and moves it when that
// is renamed, both of which the box's own table of mounts shows. So a file that was replaced, a folder that was moved, or
// something new to be covered means that the box is thrown away, and another made.

// Preparer is a [Confiner] that can make a box before there is a process for it.
type Preparer interface {
	// Prepare returns the box in which Confine would put the program now. What it needs outside of it (what stands in for
	// missing names) stays until release.
	Prepare(g Grant, readOnly bool, program string) (x *control.Box, release func(), err error)
}

// maxReady is how many boxes wait: of a thread's commands, and of its patches or another thread's.
const maxReady = 2

// ready is a box that waits for its process.
type ready struct {
	monitor *monitor
	thread  string
	box     *control.Box
	stage   int    // the process in it
	mounts  tables // when it was made
	release func()
	expiry  *time.Timer
}

// tables are the tables of mounts as a process in a box sees them, and as the host does.
type tables struct{ inside, outside string }

// fits reports whether a process that is to run in x may run in this box.
func (r *ready) fits(x *control.Box) bool {
	return r.box.Helper == x.Helper && slices.Equal(r.box.Args, x.Args)
}

// unchanged reports whether the box is what it was when it was made.
func (r *ready) unchanged() bool {
	now, ok := mountsOf(r.stage)
	return ok && now == r.mounts && r.monitor.waits()
}

// end ends a box that has got no process.
func (r *ready) end() {
	r.monitor.conn.Close() // which it takes for its end
	stuck := time.AfterFunc(killSlack, func() { r.monitor.process.Kill() })
	defer stuck.Stop()
	r.monitor.process.Wait()
}

// takeReady returns a box for a process that is to run in x; nil: there is none.
func (l *Launcher) takeReady(x *control.Box) *ready {
	l.mu.Lock()
	i := slices.IndexFunc(l.mu.ready, func(r *ready) bool { return r.fits(x) })
	var r *ready
	if i >= 0 {
		r = l.mu.ready[i]
		l.mu.ready = slices.Delete(l.mu.ready, i, i+1)
		l.work.Add(1) // while it is in nobody's list
	}
	l.mu.Unlock()
	if r == nil {
		return nil
	}
	defer l.work.Done()
	r.expiry.Stop()
	if !r.unchanged() {
		l.cfg.Logger.Debug("a box that was made ahead is not what it was", "thread", r.thread)
		r.release()
		r.end()
		return nil
	}
	return r
}

// Rest gives up the boxes that wait for commands of a thread, and what they need outside of them; "" is every thread's. Others
// are made after the next command.
func (l *Launcher) Rest(thread string) {
	l.drop(func(r *ready) bool { return thread == "" || r.thread == thread })
}

// drop ends those boxes that match. When it returns nothing stands in for missing names for their sake.
func (l *Launcher) drop(match func(*ready) bool) {
	var out []*ready
	l.mu.Lock()
	l.mu.ready = slices.DeleteFunc(l.mu.ready, func(r *ready) bool {
		if !match(r) {
			return false
		}
		out = append(out, r)
		return true
	})
	l.work.Add(len(out)) // Close has none left when it waits
	l.mu.Unlock()
	for _, r := range out {
		r.expiry.Stop()
		r.release()
		go func() { // waited for by Close
			defer l.work.Done()
			r.end()
		}()
	}
}

// disturbs reports whether a process may be about to make what boxes that wait have put a stand-in for.
func (s *Spec) disturbs() bool { return s.Grant.Mode == FullAccess || len(s.Grant.Opened) > 0 }

// ahead makes the next box after p has ended, in the background.
func (l *Launcher) ahead(p *Process) {
	preparer, ok := p.confiner.(Preparer)
	if l.cfg.Ahead <= 0 || !ok || p.spec.disturbs() || p.spec.Owner.Thread == "" { // only threads go on
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || l.mu.preparing != nil {
		return
	}
	done := make(chan struct{})
	l.mu.preparing = done
	l.work.Go(func() { // waited for by Close
		defer func() {
			l.mu.Lock()
			l.mu.preparing = nil
			l.mu.Unlock()
			close(done)
		}()
		// The processors are the host's first, which has the result to pass on.
		late := time.NewTimer(spareDelay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-l.closing.Done():
			return
		}
		if err := l.prepare(preparer, p); err != nil {
			l.cfg.Logger.Debug("no box was made ahead", "error", err)
		}
	})
}

// prepare makes a box for a process like p.
func (l *Launcher) prepare(c Preparer, p *Process) error {
	x, release, err := c.Prepare(p.spec.Grant, p.spec.ReadOnly, p.spec.Argv[0])
	if err != nil {
		return err
	}
	l.mu.Lock()
	has := slices.ContainsFunc(l.mu.ready, func(r *ready) bool { return r.fits(x) })
	l.mu.Unlock()
	if has {
		release()
		return nil
	}
	r, err := l.makeReady(x)
	if err != nil {
		release()
		return err
	}
	r.thread, r.release = p.spec.Owner.Thread, release
	var old *ready
	l.mu.Lock()
	closed := l.mu.closed
	if !closed {
		r.expiry = time.AfterFunc(l.cfg.Ahead, func() { l.drop(func(other *ready) bool { return other == r }) })
		if l.mu.ready = append(l.mu.ready, r); len(l.mu.ready) > maxReady {
			old = l.mu.ready[0]
		}
	}
	l.mu.Unlock()
	switch {
	case closed:
		release()
		r.end()
	case old != nil:
		l.drop(func(other *ready) bool { return other == old })
	}
	return nil
}

// Ready waits until everything was started that is to wait for the next process, and returns how many boxes do.
func (l *Launcher) Ready() int {
	for {
		l.mu.Lock()
		preparing, sparing, n := l.mu.preparing, l.mu.sparing, len(l.mu.ready)
		l.mu.Unlock()
		switch {
		case preparing != nil:
			<-preparing
		case sparing != nil:
			<-sparing
		default:
			return n
		}
	}
}

// MadeAhead reports whether the process runs in a box that waited for it.
func (p *Process) MadeAhead() bool { return p.madeAhead }

// mountsOf reads what a process sees mounted, and what the host does. false: it can't be found out.
func mountsOf(pid int) (t tables, ok bool) {
	inside, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil || len(inside) == 0 {
		return t, false
	}
	outside, err := os.ReadFile("/proc/self/mountinfo")
	return tables{string(inside), string(outside)}, err == nil
}
