package proc

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is a running or ended process.
type Process struct {
	process   *os.Process
	pid       int
	marker    string
	isolation Isolation
	namespace string // link text of its PID namespace; IsolationNamespace only, and empty where we may not look into it either
	started   uint64 // as in entry; 0 when it ended before we looked

	killed atomic.Bool
	exited chan struct{}
	exit   Exit          // set before exited is closed
	gone   chan struct{} // after exited
}

// newProcess takes the process over and waits for its end.
func newProcess(p *os.Process, marker string, isolation Isolation) (*Process, error) {
	pr := &Process{process: p, pid: p.Pid, marker: marker, isolation: isolation, exited: make(chan struct{}), gone: make(chan struct{})}
	if e, ok := readEntry(p.Pid); ok {
		pr.started = e.started
	}
	if isolation == IsolationNamespace {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.Pid))
		if err != nil {
			// It can be gone already, or nobody may look into it. Its descendants belong to it then: in a namespace there is nobody
			// whose ancestors do not lead to its first process, but for who came from outside.
			ns = ""
		}
		pr.namespace = ns
	}
	// No core dump of a plugin: it may hold secrets. A process that has ended by now needs none of this.
	_ = unix.Prlimit(p.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	// Owned by the Process: it ends when the process has.
	go pr.wait()
	return pr, nil
}

// guard has a gate make the connections of the process's tree until nothing is left of that.
func (p *Process) guard(g *gate) {
	// Owned by the Process: it ends when nothing is left that could ask.
	go g.run()
	// Owned by the Process: it ends with its tree.
	go func() {
		<-p.gone
		g.close()
	}()
}

// childInfo is what the kernel says about the end of a child.
type childInfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte
	pid                int32
	uid                uint32
	status             int32
	_                  [128]byte // more than a siginfo can have
}

// Codes of a child's end: si_code of SIGCHLD.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// wait notices the end and tells it at once; then it ends what is left of the tree while the number of the process is
// still taken, and reaps.
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
	case err != nil: // somebody else reaped it: how it ended is lost
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

func (p *Process) root() root { return root{p.pid, p.started, p.marker} }

// PID is the number of the process as the host sees it.
func (p *Process) PID() int { return p.pid }

// Isolation says what keeps the tree together.
func (p *Process) Isolation() Isolation { return p.isolation }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed soon after that, when nothing of its tree is left either.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Exit returns how it ended; the zero value while it runs.
func (p *Process) Exit() Exit {
	select {
	case <-p.exited:
		return p.exit
	default:
		return Exit{}
	}
}

// Signal sends sig to the process alone. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %d to process %d: %w", int(sig), p.pid, err)
	}
	return nil
}

// SignalGroup sends sig to the process and to what is still in its session's first group.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	select {
	case <-p.gone:
		return nil // the number may belong to somebody else by now
	default:
	}
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %d to group %d: %w", int(sig), p.pid, err)
	}
	return nil
}

// Kill ends the whole tree. It doesn't wait: see [Process.Exited].
func (p *Process) Kill() {
	p.killed.Store(true)
	// In a namespace this is its init: the kernel ends everything else in it before the process counts as ended.
	_ = p.Signal(syscall.SIGKILL)
	if p.isolation != IsolationNamespace {
		p.killStrays()
	}
}

// Open tells whether other processes of an ordinary user can look into a process of the tree, and read what it holds. Into root's only
// root can.
func (p *Process) Open(pid int) bool { return os.Geteuid() != 0 && open(pid) }

// Owns returns nil when the process with this number belongs to the tree.
func (p *Process) Owns(pid int) error {
	switch {
	case pid <= 0:
		return errors.New("the process at the other end lives in a namespace that the host can't see")
	case pid == p.pid:
		return nil
	case p.isolation == IsolationNamespace && p.namespace != "":
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err != nil {
			return fmt.Errorf("look at process %d: %w", pid, err)
		}
		if ns != p.namespace {
			return fmt.Errorf("process %d is not in the plugin's namespace", pid)
		}
		return nil
	}
	t, err := readTable()
	if err != nil {
		return err
	}
	if p.isolation == IsolationNamespace && !t.descends(p.root(), pid) || p.isolation != IsolationNamespace && !t.owns(p.root(), pid, carries) {
		return fmt.Errorf("process %d is not one of the plugin's", pid)
	}
	return nil
}

// Usage adds up what the tree uses. With pss it also reads the proportional figures, which takes the kernel longer.
func (p *Process) Usage(pss bool) (Usage, error) {
	var u Usage
	select {
	case <-p.exited:
		return u, nil
	default:
	}
	t, err := readTable()
	if err != nil {
		return u, err
	}
	for _, pid := range t.tree(p) {
		rss, err := residentBytes(pid)
		if err != nil {
			continue // ended meanwhile
		}
		u.Processes++
		u.RSSBytes += rss
		if !pss {
			continue
		}
		if n := proportionalBytes(pid); n > 0 {
			u.PSSBytes += n
		} else {
			pss, u.PSSBytes = false, 0 // a part of it would tell nothing
		}
	}
	return u, nil
}
