// Package latecover hides files from running processes when the files appear after the processes have started.
//
// A mount covers a file, not its name: a process that is already running would read a hidden file that is created later, or that is
// saved by renaming another file over it. This package watches the folders in which that can happen, and covers such files in the mount
// namespaces of all running processes.
//
// It owns: the watches, the list of running processes, when their covers are applied. It must not know: which files are hidden, how a
// cover is applied.
//
// Start with [New] and [Processes.Enter].
package latecover

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Process is a running process from which files are hidden.
type Process struct {
	owner  launch.Owner
	name   string // for messages
	hide   func([]control.Cover) error
	ready  chan struct{}                   // closed when covers is set
	covers func() ([]control.Cover, error) // computes what to hide now; nil: the process was not started

	mu      sync.Mutex // held while covers are applied
	waiting bool       // an application is scheduled; guarded by Processes.mu
	failed  bool       // a failure was reported
}

// Processes are the running processes. Its methods may be called concurrently.
type Processes struct {
	watcher watcher
	report  func(launch.Owner, error)

	mu       sync.Mutex
	list     []*Process
	blind    bool // the reason why not all paths are watched was reported
	noticed  int  // counts notifications
	closed   bool
	appliers sync.WaitGroup
}

// New returns an empty list. report receives what could not be hidden.
func New(report func(launch.Owner, error)) *Processes {
	h := &Processes{report: report}
	h.watcher.notify = h.appeared
	return h
}

// Enter adds a process that is about to start, and watches the paths whose appearance matters to it. hide applies covers to the
// process; name is for messages. The caller calls [Process.Ready], and [Processes.Leave] when the process has ended.
func (h *Processes) Enter(owner launch.Owner, name string, hide func([]control.Cover) error, paths []string) *Process {
	p := &Process{owner: owner, name: name, hide: hide, ready: make(chan struct{})}
	err := h.watcher.add(paths)
	h.mu.Lock()
	h.list = append(h.list, p)
	first := err != nil && !h.blind
	if first {
		h.blind = true
	}
	h.mu.Unlock()
	if first {
		h.report(owner, fmt.Errorf("keys that are created while a command runs can't be hidden from it: %w", err))
	}
	return p
}

// Ready sets the function that computes what to hide from the process at any time; nil if the process was not started. It is called once.
func (p *Process) Ready(covers func() ([]control.Cover, error)) {
	p.covers = covers
	close(p.ready)
}

// Leave removes a process.
func (h *Processes) Leave(p *Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(x *Process) bool { return x == p })
}

// Expect starts watching paths in the background before the first process enters. Errors are reported when it does.
func (h *Processes) Expect(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.appliers.Go(func() { _ = h.watcher.add(paths) }) // waited for by Close
	}
}

// Watch starts watching paths and returns the number of notifications so far, for [Processes.Since]. Errors are reported when a process
// enters.
func (h *Processes) Watch(paths []string) (noticed int) {
	_ = h.watcher.add(paths)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.noticed
}

// Since applies covers to a process if something has appeared since Watch returned noticed.
func (h *Processes) Since(p *Process, noticed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.noticed != noticed {
		h.scheduleLocked(p)
	}
}

// appeared schedules covers for all processes: a watched path has appeared.
func (h *Processes) appeared() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noticed++
	for _, p := range h.list {
		h.scheduleLocked(p)
	}
}

func (h *Processes) scheduleLocked(p *Process) {
	if !p.waiting && !h.closed {
		p.waiting = true
		h.appliers.Go(func() { h.apply(p) }) // waited for by Close; returns when the process has ended
	}
}

// apply hides what is there now from a process.
func (h *Processes) apply(p *Process) {
	<-p.ready
	p.mu.Lock()
	defer p.mu.Unlock()
	h.mu.Lock()
	p.waiting = false // what appears from now on is scheduled again
	h.mu.Unlock()
	if p.covers == nil {
		return
	}
	covers, err := p.covers()
	if len(covers) > 0 {
		err = errors.Join(err, p.hide(covers))
	}
	if err != nil && !p.failed {
		p.failed = true
		h.report(p.owner, fmt.Errorf("a key that has appeared can't be hidden from %s, which is running: %w; end it if it must not read the key", p.name, err))
	}
}

// Close stops watching and waits until no covers are being applied.
func (h *Processes) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.watcher.close()
	h.appliers.Wait()
}
