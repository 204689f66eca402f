package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// newProcess returns the Process of a process that was started, and waits for its end in the background.
func newProcess(p *os.Process, marker string, isolation Isolation) (*Process, error) {
	pr := &Process{process: p, pid: p.Pid, marker: marker, isolation: isolation, exited: make(chan struct{}), gone: make(chan struct{})}
	pr.reaped = pr.gone
	if e, ok := readEntry(p.Pid); ok {
		pr.started = e.started
	}
	if isolation == IsolationNamespace {
		// The link can't be read if the process has ended, or if it is protected from inspection. Then its descendants are its tree: in a
		// PID namespace everything descends from the first process, except for processes that have entered from outside.
		pr.namespace, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.Pid))
	}
	// No core dump of a plugin: it may contain secrets. The error of a process that has ended already doesn't matter.
	_ = unix.Prlimit(p.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	// Owned by the Process: it ends when the process has.
	go pr.wait()
	return pr, nil
}

// guard has a gate make the connections of the process's tree, until the tree has ended.
func (p *Process) guard(g *gate) {
	// Owned by the Process: it ends when there is no process left that could ask.
	go g.run()
	// Owned by the Process: it ends with its tree.
	go func() {
		<-p.gone
		g.close()
	}()
}

// childInfo is the kernel's siginfo_t for SIGCHLD.
type childInfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte
	pid                int32
	uid                uint32
	status             int32
	_                  [128]byte // more than the rest of a siginfo_t
}

// Values of si_code for SIGCHLD.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// wait reports the end of the process at once. Then it kills the rest of the tree, while the id of the process is still taken, and reaps
// the process.
func (p *Process) wait() {
	defer close(p.gone)
	var info childInfo
	var usage unix.Rusage
	var err error
	for {
		err = unix.Waitid(unix.P_PID, p.pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT, &usage)
		if err != unix.EINTR {
			break
		}
	}
	p.exit = Exit{Code: -1, At: time.Now()}
	switch {
	case err != nil: // another goroutine has reaped it: its status is lost
	case info.code == cldExited:
		p.exit.Code = int(info.status)
	case info.code == cldKilled, info.code == cldDumped:
		p.exit.Signal = syscall.Signal(info.status)
		p.exit.Killed = p.killed.Load() && p.exit.Signal == syscall.SIGKILL
	}
	p.exit.User, p.exit.System = time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
	p.exit.MaxRSSBytes = int64(usage.Maxrss) * 1024
	close(p.exited)
	if p.isolation != IsolationNamespace {
		p.killStrays()
	}
	_, _ = p.process.Wait()
}

// Kill kills the whole tree. It doesn't wait: see [Process.Exited].
func (p *Process) Kill() {
	p.killed.Store(true)
	// In a PID namespace this is the init process: the kernel kills all others in it before the process is reported as ended.
	_ = p.Signal(syscall.SIGKILL)
	if p.isolation != IsolationNamespace {
		p.killStrays()
	}
}

// Open reports whether other processes of an ordinary user can inspect a process of the tree. Only root can inspect root's.
func (p *Process) Open(pid int) bool { return os.Geteuid() != 0 && open(pid) }

func readTable() (table, error) {
	pids, err := procfs.PIDs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	t := make(table, len(pids))
	for _, pid := range pids {
		if e, ok := readEntry(pid); ok {
			t[pid] = e
		}
	}
	return t, nil
}

func readEntry(pid int) (entry, bool) {
	s, ok := procfs.Read(pid)
	return entry{pid: pid, parent: s.Parent, session: s.Session, state: s.State, started: s.Started}, ok
}

// hasEntry reports whether the process was started with an entry in its environment, or with one that starts with it.
func hasEntry(pid int, entry string, whole bool) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if string(kv) == entry || !whole && bytes.HasPrefix(kv, []byte(entry)) {
			return true
		}
	}
	return false
}

// deathTime limits the wait for killed processes to end. The kernel needs well under a millisecond for each, unless one can't be
// interrupted.
const deathTime = 100 * time.Millisecond

// kill kills processes, but not later ones that have got their ids.
func kill(list []entry) bool {
	started := make(map[int]uint64, len(list))
	pids := make([]int, 0, len(list))
	for _, e := range list {
		started[e.pid] = e.started
		pids = append(pids, e.pid)
	}
	procfs.Kill(pids, func(pid int) bool {
		now, ok := readEntry(pid)
		return ok && now.started == started[pid]
	}, deathTime)
	return true
}

// usageOf adds up the usage of processes.
func usageOf(pids []int, pss bool) (u Usage, _ error) {
	for _, pid := range pids {
		s, ok := procfs.Read(pid)
		if !ok {
			continue // it has ended meanwhile
		}
		u.Processes++
		u.RSSBytes += s.Resident
		if !pss {
			continue
		}
		if n, _ := procfs.Proportional(pid); n > 0 {
			u.PSSBytes += n
		} else {
			pss, u.PSSBytes = false, 0 // the sum of some processes would be misleading
		}
	}
	return u, nil
}
