package launch

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Where no control group counts for us, we count: often where forks and memory have to be caught, seldom for processor time.
const (
	lookOften  = 200 * time.Millisecond
	lookSeldom = time.Second
	// tick is the unit of processor time in the process table, which is the same on every architecture that Go knows.
	tick = time.Second / 100
)

// looked is what has to be looked at; 0: it has not.
type looked struct {
	memory int64
	pids   int64
	cpu    time.Duration
	group  string // a control group of version 1 whose limit on processes the kernel enforces, but says so in a counter only
}

// often reports whether it is forks or memory.
func (l looked) often() bool { return l.memory > 0 || l.pids > 0 || l.group != "" }

// tree reports whether the process table has to be read for it.
func (l looked) tree() bool { return l.memory > 0 || l.pids > 0 || l.cpu > 0 }

// lookout looks at the trees of those processes that have limits which nothing else enforces on the whole of them.
type lookout struct {
	mu struct {
		sync.Mutex
		at   map[*Process]bool
		none chan struct{} // closed when at is empty; nil: nobody looks
	}
}

// look has a process looked at until it is over.
func (l *Launcher) look(p *Process) {
	if p.looked == (looked{}) {
		return
	}
	o := &l.lookout
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.at == nil {
		o.mu.at = make(map[*Process]bool)
	}
	o.mu.at[p] = true
	if o.mu.none == nil {
		none := make(chan struct{})
		o.mu.none = none
		l.work.Go(func() { o.run(none) }) // ends with the last process that is looked at
	}
}

// spareTheLook ends looking at a process.
func (l *Launcher) spareTheLook(p *Process) {
	o := &l.lookout
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.at, p)
	if len(o.mu.at) == 0 && o.mu.none != nil {
		close(o.mu.none)
		o.mu.none = nil
	}
}

func (o *lookout) run(none chan struct{}) {
	every := time.NewTimer(lookOften)
	defer every.Stop()
	for {
		select {
		case <-none:
			return
		case <-every.C:
		}
		o.mu.Lock()
		at := make([]*Process, 0, len(o.mu.at))
		for p := range o.mu.at {
			at = append(at, p)
		}
		o.mu.Unlock()
		next := lookSeldom
		var t table
		for _, p := range at {
			if p.looked.often() {
				next = lookOften
			}
			if p.looked.group != "" && p.group.outOfPids() {
				p.reach(LimitPids)
			}
			if !p.looked.tree() {
				continue
			}
			if t == nil {
				t = readTable()
			}
			if limit := p.looked.over(t.tree(p.monitor.process.Pid)); limit != "" {
				p.reach(limit)
			}
		}
		every.Reset(next)
	}
}

// over says which limit a tree is beyond. Its first process is the launcher, which has reaped some of the others.
func (l looked) over(tree []task) string {
	var pids, memory int64
	var cpu time.Duration
	for i, t := range tree {
		cpu += t.cpu
		if i > 0 {
			pids += t.threads
			memory += t.resident
		}
	}
	switch {
	case l.pids > 0 && pids > l.pids:
		return LimitPids
	case l.cpu > 0 && cpu >= l.cpu+cpuSlack*time.Second:
		return LimitTime
	case l.memory > 0 && memory > l.memory && shared(tree[1:]) > l.memory:
		return LimitMemory
	}
	return ""
}

// shared is the memory of processes where a page that n share counts as 1/n to each. It takes the kernel longer than what the
// process table has, so it is asked only where that is too much.
func shared(tree []task) (sum int64) {
	for _, t := range tree {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(t.pid) + "/smaps_rollup")
		if err != nil {
			if _, gone := os.Stat("/proc/" + strconv.Itoa(t.pid)); gone == nil {
				sum += t.resident // it can't be looked into
			}
			continue
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				kib, _ := strconv.ParseInt(f[1], 10, 64)
				sum += kib << 10
			}
		}
	}
	return sum
}

// task is a line of the process table.
type task struct {
	pid, parent int
	threads     int64
	resident    int64         // bytes
	cpu         time.Duration // its own, and that of the children it has reaped
}

type table map[int][]task // by parent

func readTable() table {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	t := table{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if one, ok := readTask(pid); ok {
			t[one.parent] = append(t[one.parent], one)
		}
	}
	return t
}

func readTask(pid int) (task, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return task{}, false
	}
	f := statFields(b)
	if len(f) < 22 {
		return task{}, false
	}
	n := func(i int) int64 {
		v, _ := strconv.ParseInt(string(f[i]), 10, 64)
		return v
	}
	return task{
		pid: pid, parent: int(n(1)), cpu: time.Duration(n(11)+n(12)+n(13)+n(14)) * tick, threads: n(17), resident: n(21) * int64(os.Getpagesize()),
	}, true
}

// statFields are those behind the name, which may contain anything: state, parent, group, session, ...
func statFields(b []byte) [][]byte { return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) }

// tree is a process and all that are below it, itself first.
func (t table) tree(root int) []task {
	one, _ := readTask(root)
	all := []task{one}
	for next := []int{root}; len(next) > 0; {
		below := t[next[0]]
		next = next[1:]
		all = append(all, below...)
		for _, c := range below {
			next = append(next, c.pid)
		}
	}
	return all
}
