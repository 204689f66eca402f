package limit

import (
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// How often trees are polled for limits that no control group enforces: forks and memory have to be caught early.
const (
	pollOften  = 200 * time.Millisecond
	pollSeldom = time.Second // for processor time
)

// polled is the limits of a tree that polling enforces; zero: none.
type polled struct {
	memory int64
	pids   int64
	cpu    time.Duration
	group  bool // the tree's control group enforces a limit on processes, but reports that only in a counter
}

// often reports whether a limit has to be polled often.
func (p polled) often() bool { return p.memory > 0 || p.pids > 0 || p.group }

// ofTree reports whether the process table has to be read.
func (p polled) ofTree() bool { return p.memory > 0 || p.pids > 0 || p.cpu > 0 }

// poller polls trees on one goroutine, which runs while there are any.
type poller struct {
	mu struct {
		sync.Mutex
		trees map[*Tree]bool
		idle  chan struct{} // closed when trees becomes empty; nil: there is no goroutine
	}
}

// poll polls a tree until endPolling.
func (e *Enforcer) poll(t *Tree) {
	if t.polled == (polled{}) {
		return
	}
	p := &e.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.trees == nil {
		p.mu.trees = make(map[*Tree]bool)
	}
	p.mu.trees[t] = true
	if p.mu.idle == nil {
		idle := make(chan struct{})
		p.mu.idle = idle
		e.work.Go(func() { p.run(idle) }) // ends with the last tree that is polled
	}
}

func (e *Enforcer) endPolling(t *Tree) {
	p := &e.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.trees, t)
	if len(p.mu.trees) == 0 && p.mu.idle != nil {
		close(p.mu.idle)
		p.mu.idle = nil
	}
}

func (p *poller) run(idle chan struct{}) {
	timer := time.NewTimer(pollOften)
	defer timer.Stop()
	for {
		select {
		case <-idle:
			return
		case <-timer.C:
		}
		p.mu.Lock()
		trees := make([]*Tree, 0, len(p.mu.trees))
		for t := range p.mu.trees {
			trees = append(trees, t)
		}
		p.mu.Unlock()
		next := pollSeldom
		var table procfs.Children
		for _, t := range trees {
			if t.polled.often() {
				next = pollOften
			}
			if t.polled.group && t.group.OutOfPIDs() {
				t.reach(PIDs)
			}
			if !t.polled.ofTree() {
				continue
			}
			if table == nil {
				table = procfs.ReadChildren()
			}
			if limit := t.polled.reached(table.Tree(t.root)); limit != "" {
				t.reach(limit)
			}
		}
		timer.Reset(next)
	}
}

// reached returns the limit that a tree has reached; empty: none. The first process of the tree is gantry-launch, which has reaped
// some of the others.
func (p polled) reached(tree []procfs.Stat) string {
	var pids, memory int64
	var cpu time.Duration
	for i, s := range tree {
		cpu += s.CPU
		if i > 0 {
			pids += s.Threads
			memory += s.Resident
		}
	}
	switch {
	case p.pids > 0 && pids > p.pids:
		return PIDs
	case p.cpu > 0 && cpu >= p.cpu+cpuSlack*time.Second:
		return Time
	case p.memory > 0 && memory > p.memory && proportional(tree[1:]) > p.memory:
		return Memory
	}
	return ""
}

// proportional returns the memory of processes, with the pages that they share counted once.
func proportional(tree []procfs.Stat) (sum int64) {
	for _, s := range tree {
		n, err := procfs.Proportional(s.PID)
		if err != nil {
			if _, gone := os.Stat("/proc/" + strconv.Itoa(s.PID)); gone == nil {
				sum += s.Resident // another user's process, which we may not inspect
			}
			continue
		}
		sum += n
	}
	return sum
}
