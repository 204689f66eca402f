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

// Starter starts processes. On macOS a process notices by its lifeline that its host has ended; the next host kills those that do not.
type Starter struct{ closed atomic.Bool }

// NewStarter returns a starter. It starts nothing. There are no namespaces on macOS.
func NewStarter(hclog.Logger, bool) *Starter { return &Starter{} }

// Close refuses further starts.
func (s *Starter) Close() { s.closed.Store(true) }

// Start starts a process, in the system's sandbox if the spec has one. ctx limits only the start.
func (s *Starter) Start(ctx context.Context, spec Spec) (*Process, error) {
	switch {
	case s.closed.Load():
		return nil, errors.New("the supervisor is closed")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case spec.Sandbox != nil && spec.Sandbox.Box.Helper == "":
		return nil, errors.New("the plugin could not be confined: its folders can't be expressed in a profile of the system's sandbox")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open empty input: %w", err)
	}
	defer null.Close()
	// macOS can't execute an open file, so the path is resolved again. Check that it still leads to the same file, before and after.
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
	pr := &Process{process: p, pid: p.Pid, marker: spec.Marker, isolation: IsolationScan, exited: make(chan struct{}), gone: make(chan struct{})}
	pr.reaped = pr.exited
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

// unchanged returns an error if the path no longer leads to the file that was checked.
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

// wait reports the end of the process, and kills the rest of the tree.
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

// Kill kills the whole tree. It doesn't wait: see [Process.Exited].
func (p *Process) Kill() {
	p.killed.Store(true)
	_ = p.SignalGroup(syscall.SIGKILL)
	p.killStrays()
}

// Open returns false: macOS has no namespaces by which other processes could inspect it.
func (p *Process) Open(int) bool { return false }

// usageBound limits the time that ps may take.
const usageBound = 5 * time.Second

// usageOf adds up the usage of processes. Proportional figures are not known here.
func usageOf(pids []int, _ bool) (u Usage, _ error) {
	list := make([]string, len(pids))
	for i, pid := range pids {
		list[i] = strconv.Itoa(pid)
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/ps", "-o", "rss=", "-p", strings.Join(list, ",")).Output()
	if err != nil && len(out) == 0 {
		return u, fmt.Errorf("run ps: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if kb, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			u.Processes++
			u.RSSBytes += kb * 1024
		}
	}
	return u, nil
}

// readTable returns the user's processes.
func readTable() (table, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	t := make(table, len(list))
	for i := range list {
		x := &list[i]
		e := entry{pid: int(x.Proc.P_pid), parent: int(x.Eproc.Ppid), state: 'R'}
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

// environment returns the arguments and the environment that a process was started with, each between zero bytes. Those of the system's
// own programs can't be read.
func environment(pid int) []byte {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil
	}
	return append(b, 0)
}

// hasEntry reports whether the process was started with an entry in its environment, or with one that starts with it.
func hasEntry(pid int, entry string, whole bool) bool {
	entry = "\x00" + entry
	if whole {
		entry += "\x00"
	}
	return bytes.Contains(environment(pid), []byte(entry))
}

// kill kills processes. It returns false if it has killed none.
func kill(list []entry) (killed bool) {
	for _, e := range list {
		killed = syscall.Kill(e.pid, syscall.SIGKILL) == nil || killed
	}
	return killed
}
