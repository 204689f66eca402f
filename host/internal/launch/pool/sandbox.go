package pool

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/monitor"
)

// maxSandboxes is how many sandboxes wait: one for a thread's commands, and one for its patches or for another thread.
const maxSandboxes = 2

// Sandbox is a sandbox in which a stage of gantry-launch waits for a command, or in which a command runs.
type Sandbox struct {
	monitor *monitor.Monitor
	thread  string
	box     *control.Box // what it was created from
	stage   int          // the id of the process in it
	mounts  mountTables  // when it was created
	used    bool         // a command of the thread was in it
	expiry  *time.Timer
}

// mountTables are the tables of mounts of a process in a sandbox, and of the host.
type mountTables struct{ inside, outside string }

// readMounts reads the mount tables of a process and of the host. It reports false if it can't.
func readMounts(pid int) (t mountTables, ok bool) {
	inside, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil || len(inside) == 0 {
		return t, false
	}
	outside, err := os.ReadFile("/proc/self/mountinfo")
	return mountTables{string(inside), string(outside)}, err == nil
}

// fits reports whether a command that is to run in x may run in this sandbox. If another command was in it, it must be confined in
// exactly the same way, and be of the same thread and plugin.
func (s *Sandbox) fits(x *control.Box, c Command) bool {
	if s.used && (s.thread != c.Thread || !s.monitor.Serves(c.Plugin, c.Limited) || !reflect.DeepEqual(s.box, x)) {
		return false
	}
	return sameMounts(s.box, x)
}

func sameMounts(a, b *control.Box) bool {
	return a.Helper == b.Helper && slices.Equal(a.Args, b.Args)
}

// unchanged reports whether the sandbox is what it was when it was created.
func (s *Sandbox) unchanged() bool {
	now, ok := readMounts(s.stage)
	return ok && now == s.mounts && s.monitor.Waiting()
}

// end ends a sandbox without a command.
func (s *Sandbox) end() { s.monitor.Close(endTime) }

// create has a gantry-launch create a sandbox. If m is nil it starts one.
func (p *Pool) create(ctx context.Context, m *monitor.Monitor, x *control.Box) (*Sandbox, error) {
	if m == nil {
		var err error
		if m, err = p.cfg.Start(); err != nil {
			return nil, err
		}
	}
	s := &Sandbox{monitor: m, box: x}
	var err error
	if s.stage, err = m.Prepare(x, p.closing, ctx); err == nil {
		var ok bool
		if s.mounts, ok = readMounts(s.stage); !ok {
			err = errors.New("what is mounted in it can't be found out")
		}
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// takeSandbox returns a sandbox that waits for a command that is to run in x; nil: there is none.
func (p *Pool) takeSandbox(x *control.Box, c Command) *Sandbox {
	s := p.findSandbox(x, c)
	if s == nil {
		return nil
	}
	defer p.work.Done()
	s.expiry.Stop()
	if !s.unchanged() {
		p.cfg.Logger.Debug("a prepared sandbox has changed", "thread", s.thread)
		s.end()
		return nil
	}
	return s
}

// findSandbox removes a sandbox from the list, and adds to work for the caller. It waits for one that is being prepared, which is
// faster than to create another.
func (p *Pool) findSandbox(x *control.Box, c Command) *Sandbox {
	for waited := false; ; waited = true {
		p.mu.Lock()
		i := slices.IndexFunc(p.mu.sandboxes, func(s *Sandbox) bool { return s.fits(x, c) })
		if i >= 0 {
			s := p.mu.sandboxes[i]
			p.mu.sandboxes = slices.Delete(p.mu.sandboxes, i, i+1)
			p.work.Add(1)
			p.mu.Unlock()
			return s
		}
		next := p.mu.preparing
		begun := next != nil && next.begun
		p.mu.Unlock()
		if waited || !begun {
			return nil
		}
		<-next.designed
		if next.box == nil || !sameMounts(next.box, x) {
			return nil
		}
		<-next.done
	}
}

// KeepSandbox keeps the sandbox of a command whose tree has ended for the next command of the thread. Otherwise it ends it and returns
// false.
func (p *Pool) KeepSandbox(s *Sandbox, thread string) bool {
	again := &Sandbox{monitor: s.monitor, thread: thread, box: s.box, stage: s.stage, mounts: s.mounts, used: true}
	kept := p.add(again, func() bool { return !p.mu.resting[thread] && !again.monitor.Full() })
	if !kept {
		p.work.Go(again.end) // Wait waits for it
	}
	return kept
}

// add adds a sandbox to those that wait, if wanted, which is called with the mutex held, reports true.
func (p *Pool) add(s *Sandbox, wanted func() bool) bool {
	var old *Sandbox
	p.mu.Lock()
	add := !p.mu.closed && wanted()
	if add {
		s.expiry = time.AfterFunc(p.cfg.Wait, func() { p.drop(func(other *Sandbox) bool { return other == s }) })
		if p.mu.sandboxes = append(p.mu.sandboxes, s); len(p.mu.sandboxes) > maxSandboxes {
			old = p.mu.sandboxes[0]
		}
	}
	p.mu.Unlock()
	if old != nil {
		p.drop(func(other *Sandbox) bool { return other == old })
	}
	return add
}

// drop ends the sandboxes that match.
func (p *Pool) drop(match func(*Sandbox) bool) {
	var out []*Sandbox
	p.mu.Lock()
	p.mu.sandboxes = slices.DeleteFunc(p.mu.sandboxes, func(s *Sandbox) bool {
		if !match(s) {
			return false
		}
		out = append(out, s)
		return true
	})
	p.work.Add(len(out)) // there are none left after Close
	p.mu.Unlock()
	for _, s := range out {
		s.expiry.Stop()
		go func() { // Wait waits for it
			defer p.work.Done()
			s.end()
		}()
	}
}
