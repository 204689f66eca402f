//go:build linux || darwin

package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
)

// Process is a running or ended process.
type Process struct {
	process   *os.Process
	pid       int
	marker    string
	isolation Isolation
	namespace string // link text of its PID namespace; only with IsolationNamespace, and empty if we may not read it
	started   uint64 // as in entry; 0 if it ended before we looked

	killed atomic.Bool
	exited chan struct{}
	exit   Exit          // set before exited is closed
	gone   chan struct{} // after exited
	reaped chan struct{} // exited or gone: once it is closed, the id may be another process's
}

// PID is the process's id as the host sees it.
func (p *Process) PID() int { return p.pid }

// Isolation says what keeps the tree together.
func (p *Process) Isolation() Isolation { return p.isolation }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed soon after that, when the rest of the tree has ended as well.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Exit returns how the process ended; the zero value while it runs.
func (p *Process) Exit() Exit {
	select {
	case <-p.exited:
		return p.exit
	default:
		return Exit{}
	}
}

// Signal sends sig to the process alone. It returns nil if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %d to process %d: %w", int(sig), p.pid, err)
	}
	return nil
}

// SignalGroup sends sig to the process and to the rest of its session's first group.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	select {
	case <-p.reaped:
		return nil
	default:
	}
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %d to group %d: %w", int(sig), p.pid, err)
	}
	return nil
}

// Owns returns nil if the process with this id belongs to the tree.
func (p *Process) Owns(pid int) error {
	switch {
	case pid <= 0:
		return errors.New("the process at the other end is unknown: it is in a namespace that the host can't see, or the system does not name it")
	case pid == p.pid:
		return nil
	}
	t, err := readTable()
	if err != nil {
		return err
	}
	owns, err := t.belongs(p, pid)
	if err == nil && !owns {
		err = fmt.Errorf("process %d is not one of the plugin's", pid)
	}
	return err
}

// Usage adds up the usage of the tree. With pss it includes the proportional figures, which the kernel has to compute.
func (p *Process) Usage(pss bool) (Usage, error) {
	select {
	case <-p.exited:
		return Usage{}, nil
	default:
	}
	t, err := readTable()
	if err != nil {
		return Usage{}, err
	}
	return usageOf(t.tree(p), pss)
}

// tree returns the ids of p and of all processes that belong to it.
func (t table) tree(p *Process) []int {
	var pids []int
	for pid := range t {
		if pid == p.pid {
			pids = append(pids, pid)
		} else if owns, _ := t.belongs(p, pid); owns {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// belongs reports whether a process other than p belongs to its tree.
func (t table) belongs(p *Process, pid int) (bool, error) {
	r := root{p.pid, p.started, p.marker}
	switch {
	case p.isolation != IsolationNamespace:
		return t.owns(r, pid, carries), nil
	case p.namespace == "":
		return t.descends(r, pid), nil
	}
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return false, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return ns == p.namespace, nil
}

// strayRounds limits how often processes are searched for that were forked while others were killed. What is left after that is killed
// when the next host starts.
const strayRounds = 8

// hunt kills the processes that find returns, until it returns none, and returns how many there were.
func hunt(find func(table) []entry) int {
	killed := map[entry]bool{}
	for range strayRounds {
		t, err := readTable()
		if err != nil {
			break
		}
		var found []entry
		for _, e := range find(t) {
			if e.state != 'Z' && e.pid != os.Getpid() {
				found = append(found, e)
				killed[entry{pid: e.pid, started: e.started}] = true
			}
		}
		if len(found) == 0 || !kill(found) {
			break
		}
	}
	return len(killed)
}

// killStrays kills the whole tree except p itself.
func (p *Process) killStrays() {
	hunt(func(t table) []entry {
		var found []entry
		for _, pid := range t.tree(p) {
			if pid != p.pid {
				found = append(found, t[pid])
			}
		}
		return found
	})
}

// KillMarked kills every process whose environment has an entry that starts with prefix, and returns how many there were. It is for what
// a killed host has left where there are no namespaces.
func KillMarked(prefix string) int {
	return hunt(func(t table) []entry {
		var found []entry
		for pid, e := range t {
			if hasEntry(pid, prefix, false) {
				found = append(found, e)
			}
		}
		return found
	})
}

// carries reports whether the process was started with this entry in its environment. The environments of other users can't be read,
// and their processes are not ours.
func carries(pid int, marker string) bool { return hasEntry(pid, marker, true) }
