package limit

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/cgroup"
)

const (
	// sandboxPIDs is how many processes of a tree belong to its sandbox and not to the command.
	sandboxPIDs = 2
	// spareThreads is by how many threads the user's other programs may grow before a command outside of a sandbox can't fork any
	// more. Without this limit, a fork bomb that only polling counts grows faster than a slow machine can poll.
	spareThreads = 1024
	// rlimitNproc has the same number on every architecture that Go supports, except mips and sparc.
	rlimitNproc = 6
)

// Enforcer enforces the limits of process trees.
type Enforcer struct {
	places func() cgroup.Places // searched once, when the first limit needs it
	work   sync.WaitGroup       // the goroutines that watch trees
	poller poller
}

// NewEnforcer returns an Enforcer that creates control groups in the folder dir, or in a place that it finds if dir is empty. "none":
// it creates none.
func NewEnforcer(dir string) *Enforcer {
	return &Enforcer{places: sync.OnceValue(func() cgroup.Places { return cgroup.Find(dir) })}
}

// Wait waits until nothing is watched any more: every tree has been closed.
func (e *Enforcer) Wait() { e.work.Wait() }

// InGroups reports whether control groups enforce the limits of a tree.
func (e *Enforcer) InGroups(s Set) bool {
	if s.MemoryBytes <= 0 && s.MaxPids <= 0 {
		return false
	}
	p := e.places()
	memory, _ := p.Memory()
	pids, _ := p.PIDs()
	return s.MemoryBytes > 0 && memory != "" || s.MaxPids > 0 && pids != ""
}

// Tree is the limits of one process tree.
type Tree struct {
	Order
	enforcer *Enforcer
	set      Set
	group    cgroup.Group
	polled   polled // limits that nothing else enforces on the whole tree
	root     int    // the process whose descendants are the tree; set before it is polled
	kill     func() // ends the tree

	mu struct {
		sync.Mutex
		closed  bool
		reached string // the limit that the tree has reached
	}
}

// Prepare prepares the limits of a tree that is about to be started, in a sandbox or not. kill is called, once, when the tree has
// reached a limit; that may be before Started. Close the tree when it has ended or could not be started.
func (e *Enforcer) Prepare(id string, s Set, sandboxed bool, kill func()) (*Tree, error) {
	t := &Tree{enforcer: e, set: s, kill: kill}
	maxPIDs := s.MaxPids
	if sandboxed && maxPIDs > 0 {
		maxPIDs += sandboxPIDs
	}
	if s.MemoryBytes > 0 || maxPIDs > 0 {
		var err error
		if t.group, err = e.places().New(id, s.MemoryBytes, maxPIDs); err != nil {
			return nil, fmt.Errorf("limit the process: %w", err)
		}
		t.group.Watch(e.work.Go, func() { t.reach(Memory) }, func() { t.reach(PIDs) })
	}
	t.Cgroup, t.Groups = t.group.Unified, t.group.V1
	t.polled = polled{cpu: time.Duration(s.CPUSeconds) * time.Second, group: t.group.NeedsPolling()}
	if !t.group.LimitsMemory() {
		t.polled.memory = s.MemoryBytes
	}
	if !t.group.LimitsPIDs() {
		t.polled.pids = maxPIDs
		if maxPIDs > 0 && os.Geteuid() != 0 { // the limit does not apply to root
			most := maxPIDs // counted in the sandbox's own user namespace
			if !sandboxed {
				most += threads() + spareThreads // counted with all other threads of the user
			}
			t.Rlimits = append(t.Rlimits, rlimit(rlimitNproc, most, most))
		}
	}
	t.Rlimits = append(t.Rlimits, s.rlimits()...)
	// Memory comes last, because it also limits the second stage of gantry-launch, which applies the limits.
	if t.polled.memory > 0 {
		t.Rlimits = append(t.Rlimits, rlimit(syscall.RLIMIT_DATA, s.MemoryBytes, s.MemoryBytes))
	}
	if s.AddressSpaceBytes > 0 {
		t.Rlimits = append(t.Rlimits, rlimit(syscall.RLIMIT_AS, s.AddressSpaceBytes, s.AddressSpaceBytes))
	}
	return t, nil
}

// Started enforces from now on the limits that apply to a command that runs. The tree is the descendants of root.
func (t *Tree) Started(root int) {
	if t.group.Started() {
		t.reach(PIDs)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root = root; !t.mu.closed {
		t.enforcer.poll(t)
	}
}

// reach ends the tree because it has reached a limit. Only the first limit counts.
func (t *Tree) reach(limit string) {
	t.mu.Lock()
	first := t.mu.reached == "" && !t.mu.closed
	if first {
		t.mu.reached = limit
	}
	t.mu.Unlock()
	if first {
		t.kill()
	}
}

// EndedBy returns the limit that ended the tree; empty: none did. It must not be called after Close.
func (t *Tree) EndedBy(u Usage) string {
	t.mu.Lock()
	reached := t.mu.reached
	t.mu.Unlock()
	switch {
	case reached != "":
		return reached
	case u.Code == 0:
		return ""
	case t.group.OutOfMemory():
		return Memory
	case t.group.OutOfPIDs():
		return PIDs
	}
	return t.set.endedBy(u)
}

// Close removes the control groups, and ends polling.
func (t *Tree) Close() {
	t.mu.Lock()
	t.mu.closed = true
	t.mu.Unlock()
	t.group.Remove()
	t.enforcer.endPolling(t)
}

// threads returns the number of threads on the machine.
func threads() int64 {
	b, _ := os.ReadFile("/proc/loadavg") // 0.20 0.18 0.12 1/80 11206
	if f := strings.Fields(string(b)); len(f) > 3 {
		_, all, _ := strings.Cut(f[3], "/")
		n, _ := strconv.ParseInt(all, 10, 64)
		return n
	}
	return 0
}

// FindMeans returns what enforces limits on this machine.
func FindMeans() Means {
	p := cgroup.Find("")
	means := func(dir string, version int) string {
		if dir == "" {
			return ""
		}
		return fmt.Sprintf("a control group (version %d)", version)
	}
	userPIDs := ""
	if os.Geteuid() != 0 {
		userPIDs = "a limit in the sandbox's own user namespace, and polling of the processes five times a second"
	}
	return Means{
		Memory: cmp.Or(means(p.Memory()), "a limit on each process, and polling of all of them five times a second"),
		Pids:   cmp.Or(means(p.PIDs()), userPIDs, "polling of the processes five times a second"),
	}
}
