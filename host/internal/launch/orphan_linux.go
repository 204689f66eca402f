package launch

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// Adopt makes this process the parent of the processes that a killed gantry-launch leaves running. A daemon then remains a descendant of
// the host, in whatever session it is, and the run socket recognizes it.
func (l *Launcher) Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	l.work.Go(l.reapAdopted) // ends when the launcher is closed
	return nil
}

// reapInterval is how often adopted processes that have ended are reaped.
const reapInterval = 10 * time.Second

// reapAdopted reaps adopted processes. A process that the host itself has started is never found as a zombie twice in a row, because a
// goroutine waits for it.
func (l *Launcher) reapAdopted() {
	look := time.NewTicker(reapInterval)
	defer look.Stop()
	var before map[int]uint64
	for {
		select {
		case <-l.closing:
			return
		case <-look.C:
		}
		now := zombies()
		for pid, born := range now {
			if before[pid] == born {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
		before = now
	}
}

// zombies returns the children of this process that have ended and were not waited for, with their start times.
func zombies() map[int]uint64 {
	var any unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &any, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil || any.Signo == 0 {
		return nil
	}
	pids, err := procfs.PIDs()
	if err != nil {
		return nil
	}
	out := map[int]uint64{}
	for _, pid := range pids {
		if s, ok := procfs.Read(pid); ok && s.State == 'Z' && s.Parent == os.Getpid() {
			out[pid] = s.Started
		}
	}
	return out
}

// killSession kills what is left of a session whose gantry-launch was killed. The leader is dead already, by its parent-death signal; a
// grandchild with a session of its own is adopted instead. It is called at once, before the leader's id can be reused.
func killSession(sid int) {
	pids, _ := procfs.PIDs()
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		// Open the handle before reading the session: the process that a handle refers to can't change.
		proc, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if s, ok := procfs.Read(pid); ok && s.Session == sid {
			proc.Signal(syscall.SIGKILL)
		}
		proc.Release()
	}
}
