package launch

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// A box takes most of the time in which a short command runs. So one is made as soon as a command is to be expected, and once it has
// ended in that the next is made while the model thinks, for a command under the same grant: with its mounts, and a stage of
// gantry-launch in it that waits. What the command may do beyond the mounts (Landlock, the filter of system calls, limits) comes with
// its order as ever.
//
// Meanwhile anybody may change the machine. A box is taken only for a command for which the very same would be made now, and
// while all its mounts are where they were: the kernel takes a mount away when what it lies on is removed, and moves it when that
// is renamed, both of which the box's own table of mounts shows. So a file that was replaced, a folder that was moved, or
// something new to be covered means that the box is thrown away, and another made.

// Preparer is a [Confiner] that can make a box before there is a process for it.
type Preparer interface {
	// Prepare returns the box in which Confine would put the program now.
	Prepare(g Grant, readOnly bool, program string) (*control.Box, error)
}

// foreseeDelay is how long a model may think before a box is made for what it may call.
const foreseeDelay = 50 * time.Millisecond

// maxReady is how many boxes wait: of a thread's commands, and of its patches or another thread's.
const maxReady = 2

// ready is a box that waits for its process.
type ready struct {
	monitor *monitor
	thread  string
	box     *control.Box
	stage   int    // the process in it
	mounts  tables // when it was made
	used    bool   // a process of the thread was in it
	expiry  *time.Timer
}

// tables are the tables of mounts as a process in a box sees them, and as the host does.
type tables struct{ inside, outside string }

// fits reports whether a process that is to run in x may run in this box. Where another was before, all that confined that has to be the
// same, and it was the same thread's and plugin's.
func (r *ready) fits(x *control.Box, s *Spec) bool {
	if r.used && (r.thread != s.Owner.Thread || !r.monitor.serves(s) || !reflect.DeepEqual(r.box, x)) {
		return false
	}
	return fits(r.box, x)
}

func fits(made, x *control.Box) bool {
	return made.Helper == x.Helper && slices.Equal(made.Args, x.Args)
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
func (l *Launcher) takeReady(x *control.Box, s *Spec) *ready {
	r := l.findReady(x, s)
	if r == nil {
		return nil
	}
	defer l.work.Done()
	r.expiry.Stop()
	if !r.unchanged() {
		l.cfg.Logger.Debug("a box that waited is not what it was", "thread", r.thread)
		r.end()
		return nil
	}
	return r
}

// findReady takes a box out of the list, and counts as work until its caller is done. One that is being made is waited for: it was
// begun earlier than another would be.
func (l *Launcher) findReady(x *control.Box, s *Spec) *ready {
	for waited := false; ; waited = true {
		l.mu.Lock()
		i := slices.IndexFunc(l.mu.ready, func(r *ready) bool { return r.fits(x, s) })
		if i >= 0 {
			r := l.mu.ready[i]
			l.mu.ready = slices.Delete(l.mu.ready, i, i+1)
			l.work.Add(1)
			l.mu.Unlock()
			return r
		}
		p := l.mu.preparing
		begun := p != nil && p.begun
		l.mu.Unlock()
		if waited || !begun {
			return nil
		}
		<-p.designed
		if p.box == nil || !fits(p.box, x) {
			return nil
		}
		<-p.done
	}
}

// preparation is a box that is being made.
type preparation struct {
	thread   string
	begun    bool // guarded by the launcher's mutex, as is
	givenUp  bool
	now      func()        // ends its delay, once
	designed chan struct{} // closed when box is known
	box      *control.Box  // nil: there will be none
	done     chan struct{} // closed when it waits, or won't
}

// Rest gives up the boxes that wait for commands of a thread. Until its next process no other is made.
func (l *Launcher) Rest(thread string) {
	l.mu.Lock()
	l.mu.resting[thread] = true
	l.mu.Unlock()
	l.giveUp(thread)
}

// giveUp gives up the boxes of a thread; "" is every thread's. Others are made after the next command.
func (l *Launcher) giveUp(thread string) {
	l.mu.Lock()
	p := l.mu.preparing
	if p != nil && thread != "" && p.thread != thread {
		p = nil
	}
	begun := p != nil && p.begun
	if p != nil {
		p.givenUp = true
	}
	l.mu.Unlock()
	if begun {
		<-p.done
	}
	l.drop(func(r *ready) bool { return thread == "" || r.thread == thread })
}

// drop ends those boxes that match.
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
		go func() { // waited for by Close
			defer l.work.Done()
			r.end()
		}()
	}
}

// lasts reports whether more than one process is to be expected under a grant whose box would be its own: what opens a file was approved
// for one.
func (g Grant) lasts() bool { return g.Mode != FullAccess && len(g.Opened) == 0 }

// Expect makes a box for a process that a thread is about to start, in the background, unless one waits for the thread. grant is
// called there; a process under another one does not get this box.
func (l *Launcher) Expect(thread string, grant func() (Grant, error)) { l.expect(thread, 0, grant) }

// Foresee is Expect for a process that a thread may start once its model has thought: it leaves the processors to what asks the model
// first, and a model that answers at once is not waited with.
func (l *Launcher) Foresee(thread string, grant func() (Grant, error)) {
	l.mu.Lock()
	delete(l.mu.resting, thread)
	l.mu.Unlock()
	l.expect(thread, foreseeDelay, grant)
}

func (l *Launcher) expect(thread string, delay time.Duration, grant func() (Grant, error)) {
	l.mu.Lock()
	waits := slices.ContainsFunc(l.mu.ready, func(r *ready) bool { return r.thread == thread })
	l.mu.Unlock()
	if waits {
		return
	}
	l.prepareLater(thread, delay, func() (*preparing, error) {
		g, err := grant()
		if err != nil {
			return nil, err
		}
		confiner, err := l.confiner(g)
		if err != nil {
			return nil, err
		}
		preparer, ok := confiner.(Preparer)
		if !ok || !g.lasts() {
			return nil, nil
		}
		return &preparing{maker: preparer, grant: g}, nil
	})
}

// ahead makes the next box after p has ended, in the background.
func (l *Launcher) ahead(p *Process) {
	preparer, ok := p.confiner.(Preparer)
	if !ok || !p.spec.Grant.lasts() {
		return
	}
	// The processors are the host's first, which has the result to pass on.
	l.prepareLater(p.spec.Owner.Thread, spareDelay, func() (*preparing, error) {
		return &preparing{preparer, p.spec.Grant, p.spec.ReadOnly, p.spec.Argv[0]}, nil
	})
}

// preparing is what a box is made for.
type preparing struct {
	maker    Preparer
	grant    Grant
	readOnly bool
	program  string
}

// prepareLater makes a box in the background, after a delay; what for is asked then, nil means for nothing.
func (l *Launcher) prepareLater(thread string, delay time.Duration, what func() (*preparing, error)) {
	if l.cfg.Ahead <= 0 || thread == "" { // only threads go on
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.mu.preparing; p != nil && delay == 0 && p.thread == thread && !p.begun && !p.givenUp {
		p.begun = true
		p.now()
	}
	if l.mu.closed || l.mu.preparing != nil || l.mu.resting[thread] && delay > 0 {
		return
	}
	hurry := make(chan struct{})
	p := &preparation{now: func() { close(hurry) }, thread: thread, begun: delay == 0, designed: make(chan struct{}), done: make(chan struct{})}
	l.mu.preparing = p
	delete(l.mu.resting, thread)
	l.work.Go(func() { // waited for by Close
		defer close(p.done)
		defer func() {
			l.mu.Lock()
			l.mu.preparing = nil
			l.mu.Unlock()
		}()
		designed := sync.OnceFunc(func() { close(p.designed) })
		defer designed()
		if delay > 0 {
			late := time.NewTimer(delay)
			defer late.Stop()
			select {
			case <-late.C:
			case <-hurry:
			case <-l.closing.Done():
				return
			}
		}
		l.mu.Lock()
		p.begun = true
		givenUp := p.givenUp
		l.mu.Unlock()
		if givenUp {
			return
		}
		wanted, err := what()
		if err == nil && wanted != nil {
			err = l.prepare(p, wanted, designed)
		}
		if err != nil {
			l.cfg.Logger.Debug("no box was made ahead", "error", err)
		}
	})
}

// prepare makes a box, and says when it knows which.
func (l *Launcher) prepare(p *preparation, wanted *preparing, designed func()) error {
	if l.limits.InGroups(wanted.grant.Limits) || wanted.grant.Limits.MaxPids > 0 {
		return nil // its processes get a box that is made at once
	}
	x, err := wanted.maker.Prepare(wanted.grant, wanted.readOnly, wanted.program)
	if err != nil {
		return err
	}
	l.mu.Lock()
	has := slices.ContainsFunc(l.mu.ready, func(r *ready) bool {
		return !r.used && fits(r.box, x) || r.used && r.thread == p.thread && reflect.DeepEqual(r.box, x)
	})
	l.mu.Unlock()
	if has {
		return nil
	}
	p.box = x
	designed()
	r, err := l.makeReady(l.closing, nil, x)
	if err != nil {
		return err
	}
	r.thread = p.thread
	if !l.addReady(r, func() bool { return !p.givenUp }) {
		r.end()
	}
	return nil
}

// addReady adds a box to those that wait, if it is wanted, which is asked under the mutex.
func (l *Launcher) addReady(r *ready, wanted func() bool) bool {
	var old *ready
	l.mu.Lock()
	wants := !l.mu.closed && wanted()
	if wants {
		r.expiry = time.AfterFunc(l.cfg.Ahead, func() { l.drop(func(other *ready) bool { return other == r }) })
		if l.mu.ready = append(l.mu.ready, r); len(l.mu.ready) > maxReady {
			old = l.mu.ready[0]
		}
	}
	l.mu.Unlock()
	if old != nil {
		l.drop(func(other *ready) bool { return other == old })
	}
	return wants
}

// keeps reports whether the box of a process may wait, before it or after it.
func (l *Launcher) keeps(s *Spec) bool {
	return l.cfg.Ahead > 0 && s.Owner.Thread != "" && s.Grant.lasts()
}

// keepBox has the box of a process of which nothing is left wait for the next. It reports whether it does.
func (l *Launcher) keepBox(p *Process) bool {
	thread := p.spec.Owner.Thread
	r := &ready{monitor: p.box.monitor, thread: thread, box: p.box.box, stage: p.box.stage, mounts: p.box.mounts, used: true}
	kept := l.addReady(r, func() bool { return !l.mu.resting[thread] && !r.monitor.full() })
	if !kept {
		l.work.Go(r.end) // waited for by Close
	}
	return kept
}

// Ready waits until everything was started that is to wait for the next process, and returns how many boxes do.
func (l *Launcher) Ready() int {
	for {
		l.mu.Lock()
		preparing, sparing, n := l.mu.preparing, l.mu.sparing, len(l.mu.ready)
		l.mu.Unlock()
		switch {
		case preparing != nil:
			<-preparing.done
		case sparing != nil:
			<-sparing
		default:
			return n
		}
	}
}

// MadeAhead reports whether the process runs in a box that waited for it.
func (p *Process) MadeAhead() bool { return p.madeAhead }

// Reused reports whether the process runs in a box that another was in before.
func (p *Process) Reused() bool { return p.reused }

// mountsOf reads what a process sees mounted, and what the host does. false: it can't be found out.
func mountsOf(pid int) (t tables, ok bool) {
	inside, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil || len(inside) == 0 {
		return t, false
	}
	outside, err := os.ReadFile("/proc/self/mountinfo")
	return tables{string(inside), string(outside)}, err == nil
}
