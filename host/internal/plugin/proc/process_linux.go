package proc

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a running or ended process.
type Process struct {
	process   *os.Process
	pid       int
	marker    string
	isolation Isolation
	namespace string // link text of its PID namespace; IsolationNamespace only
	started   uint64 // as in entry; 0 when it ended before we looked

	killed atomic.Bool
	exited chan struct{}
	exit   Exit // set before exited is closed
}

// newProcess takes the process over and waits for its end.
func newProcess(p *os.Process, marker string, isolation Isolation) (*Process, error) {
	pr := &Process{process: p, pid: p.Pid, marker: marker, isolation: isolation, exited: make(chan struct{})}
	if e, ok := readEntry(p.Pid); ok {
		pr.started = e.started
	}
	if isolation == IsolationNamespace {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.Pid))
		if err != nil {
			// It can be gone already. Whatever connects can't be told from others then, and is refused.
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

// wait notices the end, ends what is left of the tree while the number of the process is still taken, then reaps.
func (p *Process) wait() {
	defer close(p.exited)
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	at := time.Now()
	if p.isolation != IsolationNamespace {
		p.killStrays()
	}
	st, err := p.process.Wait()
	p.exit = Exit{Code: -1, At: at}
	if err != nil {
		return
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.exit.Signal = ws.Signal()
		p.exit.Killed = p.killed.Load() && ws.Signal() == syscall.SIGKILL
	} else {
		p.exit.Code = st.ExitCode()
	}
	p.exit.User, p.exit.System = st.UserTime(), st.SystemTime()
	if ru, ok := st.SysUsage().(*syscall.Rusage); ok {
		p.exit.MaxRSSBytes = ru.Maxrss * 1024
	}
}

// PID is the number of the process as the host sees it.
func (p *Process) PID() int { return p.pid }

// Isolation says what keeps the tree together.
func (p *Process) Isolation() Isolation { return p.isolation }

// Exited is closed when the process has ended and was reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

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
	case <-p.exited:
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

// Owns returns nil when the process with this number belongs to the tree.
func (p *Process) Owns(pid int) error {
	switch {
	case pid <= 0:
		return errors.New("the process at the other end lives in a namespace that the host can't see")
	case pid == p.pid:
		return nil
	case p.isolation == IsolationNamespace:
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err != nil {
			return fmt.Errorf("look at process %d: %w", pid, err)
		}
		if p.namespace == "" || ns != p.namespace {
			return fmt.Errorf("process %d is not in the plugin's namespace", pid)
		}
		return nil
	}
	t, err := readTable()
	if err != nil {
		return err
	}
	if !t.owns(p, pid) {
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
		if pss {
			u.PSSBytes += proportionalBytes(pid)
		}
	}
	return u, nil
}
