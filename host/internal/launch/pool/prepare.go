package pool

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Creating a sandbox takes most of the time of a short command. So one is created as soon as a command is expected, and another after
// the command has ended, while the model thinks, for a command with the same grant: with its mounts, and a stage of gantry-launch in
// it that waits. What limits a command beyond the mounts (Landlock, the filter of system calls, resource limits) comes with its order.
//
// Meanwhile anything may change on the machine. A prepared sandbox is used only for a command for which exactly the same sandbox would
// be created now, and only while all its mounts are where they were: the kernel removes a mount when what is under it is removed, and
// moves it when that is renamed, and both change the sandbox's mount table. So if a file was replaced, a folder was moved, or something
// new has to be hidden, the sandbox is discarded, and another is created.

// Design returns the sandbox to prepare; nil: none.
type Design func() (*control.Box, error)

// preparation is a sandbox that is being prepared.
type preparation struct {
	thread   string
	begun    bool // guarded by the pool's mutex, like givenUp
	givenUp  bool
	now      func()        // ends the delay; to be called once
	designed chan struct{} // closed when box is known
	box      *control.Box  // nil: there will be none
	done     chan struct{} // closed when the sandbox waits, or will not exist
}

// Rest ends the sandboxes that wait for commands of a thread. None is prepared until Resume.
func (p *Pool) Rest(thread string) {
	p.mu.Lock()
	p.mu.resting[thread] = true
	p.mu.Unlock()
	p.giveUp(thread)
}

// Resume allows sandboxes for a thread again.
func (p *Pool) Resume(thread string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.resting, thread)
}

// giveUp ends the sandboxes of a thread; "": of all threads.
func (p *Pool) giveUp(thread string) {
	p.mu.Lock()
	next := p.mu.preparing
	if next != nil && thread != "" && next.thread != thread {
		next = nil
	}
	begun := next != nil && next.begun
	if next != nil {
		next.givenUp = true
	}
	p.mu.Unlock()
	if begun {
		<-next.done
	}
	p.drop(func(s *Sandbox) bool { return thread == "" || s.thread == thread })
}

// Expect is like Prepare, but does nothing if a sandbox waits for the thread already.
func (p *Pool) Expect(thread string, delay time.Duration, design Design) {
	p.mu.Lock()
	waits := slices.ContainsFunc(p.mu.sandboxes, func(s *Sandbox) bool { return s.thread == thread })
	p.mu.Unlock()
	if !waits {
		p.Prepare(thread, delay, design)
	}
}

// Prepare prepares a sandbox for a thread in the background, after a delay. It does nothing if one is being prepared, but for the
// same thread and without a delay it ends that one's.
func (p *Pool) Prepare(thread string, delay time.Duration, design Design) {
	if p.cfg.Wait <= 0 || thread == "" { // only a thread has a next command
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := p.mu.preparing; next != nil && delay == 0 && next.thread == thread && !next.begun && !next.givenUp {
		next.begun = true
		next.now()
	}
	if p.mu.closed || p.mu.preparing != nil || p.mu.resting[thread] && delay > 0 {
		return
	}
	hurry := make(chan struct{})
	next := &preparation{
		now: func() { close(hurry) }, thread: thread, begun: delay == 0,
		designed: make(chan struct{}), done: make(chan struct{}),
	}
	p.mu.preparing = next
	delete(p.mu.resting, thread)
	p.work.Go(func() { // ends with the pool at the latest
		defer close(next.done)
		defer func() {
			p.mu.Lock()
			p.mu.preparing = nil
			p.mu.Unlock()
		}()
		designed := sync.OnceFunc(func() { close(next.designed) })
		defer designed()
		if delay > 0 {
			late := time.NewTimer(delay)
			defer late.Stop()
			select {
			case <-late.C:
			case <-hurry:
			case <-p.closing.Done():
				return
			}
		}
		p.mu.Lock()
		next.begun = true
		givenUp := next.givenUp
		p.mu.Unlock()
		if givenUp {
			return
		}
		if err := p.prepare(next, design, designed); err != nil {
			p.cfg.Logger.Debug("no sandbox was prepared", "error", err)
		}
	})
}

// prepare prepares a sandbox, and calls designed when it is known which.
func (p *Pool) prepare(next *preparation, design Design, designed func()) error {
	x, err := design()
	if x == nil || err != nil {
		return err
	}
	p.mu.Lock()
	has := slices.ContainsFunc(p.mu.sandboxes, func(s *Sandbox) bool {
		return !s.used && sameMounts(s.box, x) || s.used && s.thread == next.thread && reflect.DeepEqual(s.box, x)
	})
	p.mu.Unlock()
	if has {
		return nil
	}
	next.box = x
	designed()
	s, err := p.create(p.closing, nil, x)
	if err != nil {
		return err
	}
	s.thread = next.thread
	if !p.add(s, func() bool { return !next.givenUp }) {
		s.end()
	}
	return nil
}
