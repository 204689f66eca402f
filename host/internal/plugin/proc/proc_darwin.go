package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// Starter starts processes. A process here learns of its host's end by its lifeline; what does not listen to that is ended by the next
// host.
type Starter struct{ closed atomic.Bool }

// NewStarter starts nothing. There are no namespaces here.
func NewStarter(hclog.Logger, bool) *Starter { return &Starter{} }

// Close refuses further starts.
func (s *Starter) Close() { s.closed.Store(true) }

// Start starts a process, in the system's sandbox where the spec has a cage. ctx only bounds the start.
func (s *Starter) Start(ctx context.Context, spec Spec) (*Process, error) {
	switch {
	case s.closed.Load():
		return nil, errors.New("the supervisor is closed")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case spec.Sandbox != nil && spec.Sandbox.Box.Helper == "":
		return nil, errors.New("the plugin could not be confined: its folders can't be worded for the system's sandbox")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open empty input: %w", err)
	}
	defer null.Close()
	// What is executed is found by its path once more: nothing here executes an open file. So it is looked at before and after.
	if err := unchanged(spec); err != nil {
		return nil, err
	}
	path, argv := spec.Path, append([]string{spec.Path}, spec.Args...)
	if spec.Sandbox != nil {
		path = spec.Sandbox.Box.Helper
		argv = slices.Concat([]string{path}, spec.Sandbox.Box.Args, []string{"--", spec.Path}, spec.Args)
	}
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: []*os.File{null, spec.Stdout, spec.Stderr, spec.Lifeline}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	pr := &Process{process: p, pid: p.Pid, marker: spec.Marker, exited: make(chan struct{}), gone: make(chan struct{})}
	if t, err := readTable(); err == nil {
		pr.started = t[p.Pid].started
	}
	// Owned by the Process: it ends when the process has.
	go pr.wait()
	if err := unchanged(spec); err != nil {
		pr.Kill()
		return nil, err
	}
	return pr, nil
}

// unchanged says whether the path still leads to the file that was checked.
func unchanged(spec Spec) error {
	if spec.Binary == nil {
		return nil
	}
	checked, err := spec.Binary.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(spec.Path)
	if err != nil {
		return err
	}
	if !os.SameFile(checked, now) || checked.Size() != now.Size() || !checked.ModTime().Equal(now.ModTime()) {
		return fmt.Errorf("%s was changed while it was being started", spec.Path)
	}
	return nil
}

// Process is a running or ended process.
type Process struct {
	process *os.Process
	pid     int
	marker  string
	started uint64

	killed atomic.Bool
	exited chan struct{}
	exit   Exit          // set before exited is closed
	gone   chan struct{} // after exited
}

func (p *Process) root() root { return root{p.pid, p.started, p.marker} }

// wait notices the end, tells it, and ends what is left of the tree.
func (p *Process) wait() {
	defer close(p.gone)
	state, err := p.process.Wait()
	p.exit = Exit{Code: -1, At: time.Now()}
	if err == nil {
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.exit.Signal = status.Signal()
			p.exit.Killed = p.killed.Load() && p.exit.Signal == syscall.SIGKILL
		} else {
			p.exit.Code = state.ExitCode()
		}
		p.exit.User, p.exit.System = state.UserTime(), state.SystemTime()
		if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
			p.exit.MaxRSSBytes = usage.Maxrss
		}
	}
	close(p.exited)
	p.killStrays()
}

// PID is the number of the process.
func (p *Process) PID() int { return p.pid }

// Isolation says what keeps the tree together.
func (p *Process) Isolation() Isolation { return IsolationScan }

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
	_ = p.SignalGroup(syscall.SIGKILL)
	p.killStrays()
}

// Open is false: this system does not tell, and nobody owns a namespace here.
func (p *Process) Open(int) bool { return false }

// Owns returns nil when the process with this number belongs to the tree.
func (p *Process) Owns(pid int) error {
	switch {
	case pid <= 0:
		return errors.New("the system does not say which process is at the other end")
	case pid == p.pid:
		return nil
	}
	t, err := readTable()
	if err != nil {
		return err
	}
	if !t.owns(p.root(), pid, carries) {
		return fmt.Errorf("process %d is not one of the plugin's", pid)
	}
	return nil
}

// tree lists p and all that belongs to it.
func (t table) tree(p *Process) []int {
	var pids []int
	for pid := range t {
		if t.owns(p.root(), pid, carries) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// usageBound is how long the system's program may take to tell what processes use.
const usageBound = 5 * time.Second

// Usage adds up what the tree uses. Proportional figures are not known here.
func (p *Process) Usage(bool) (Usage, error) {
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
	var list []string
	for _, pid := range t.tree(p) {
		list = append(list, strconv.Itoa(pid))
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/ps", "-o", "rss=", "-p", strings.Join(list, ",")).Output()
	if err != nil && len(out) == 0 {
		return u, fmt.Errorf("ask what processes use: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if kb, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			u.Processes++
			u.RSSBytes += kb * 1024
		}
	}
	return u, nil
}

// readTable lists the user's processes.
func readTable() (table, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	t := make(table, len(list))
	for i := range list {
		x := &list[i]
		e := entry{pid: int(x.Proc.P_pid), parent: int(x.Eproc.Ppid), group: int(x.Eproc.Pgid), state: 'R'}
		const zombie = 5 // SZOMB
		if x.Proc.P_stat == zombie {
			e.state = 'Z'
		}
		e.started = uint64(x.Proc.P_starttime.Sec)*1_000_000 + uint64(x.Proc.P_starttime.Usec)
		if e.session, err = unix.Getsid(e.pid); err != nil {
			e.session = 0
		}
		t[e.pid] = e
	}
	return t, nil
}

// environment are a process's arguments and the variables that it was started with, with zero bytes around them. The system's own
// programs don't show theirs.
func environment(pid int) []byte {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil
	}
	return append(b, 0)
}

func carries(pid int, marker string) bool {
	return bytes.Contains(environment(pid), []byte("\x00"+marker+"\x00"))
}

// strayRounds bounds the hunt for processes that fork while they are hunted.
const strayRounds = 8

// hunt kills what find finds until that is nothing any more, and returns how many processes there were.
func hunt(find func(table) []entry) int {
	killed := map[entry]bool{}
	for range strayRounds {
		t, err := readTable()
		if err != nil {
			break
		}
		found := false
		for _, e := range find(t) {
			if e.state != 'Z' && e.pid != os.Getpid() && syscall.Kill(e.pid, syscall.SIGKILL) == nil {
				found = true
				killed[entry{pid: e.pid, started: e.started}] = true
			}
		}
		if !found {
			break
		}
	}
	return len(killed)
}

// killStrays kills everything of the tree except p itself, until nothing new turns up.
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

// KillMarked kills every process whose environment holds an entry that starts with prefix, and returns how many there were. It is for
// what a host that was killed left behind.
func KillMarked(prefix string) int {
	return hunt(func(t table) []entry {
		var found []entry
		for pid, e := range t {
			if bytes.Contains(environment(pid), []byte("\x00"+prefix)) {
				found = append(found, e)
			}
		}
		return found
	})
}
