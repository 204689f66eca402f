package launch

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// Adopt has the kernel make this process the parent of what a killed gantry-launch leaves running. A daemon then stays below the host,
// in whatever session it is, and the run socket recognizes it.
func (l *Launcher) Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	l.work.Go(l.reapAdopted) // ends when the launcher is closed
	return nil
}

// reapInterval is the time between two looks for adopted processes that have ended.
const reapInterval = 10 * time.Second

// reapAdopted waits for adopted processes, which nothing else does. A process that the host has started has a goroutine that waits for
// it, so it is no zombie twice in a row.
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

// zombies are the ended children of this process that nobody has waited for, and when each began.
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

// killSession kills what is left of a session whose launcher was killed. Its leader is dead already (parent-death
// signal); a grandchild that made a session of its own is adopted instead. Called at once, before the leader's number can come
// round again.
func killSession(sid int) {
	pids, _ := procfs.PIDs()
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		// A handle first, then a look: what the handle means can't change any more.
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
