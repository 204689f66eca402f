package launch

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	var before map[int]string
	for {
		select {
		case <-l.closing.Done():
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
func zombies() map[int]string {
	var any unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &any, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil || any.Signo == 0 {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self, out := strconv.Itoa(os.Getpid()), map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if f := statFields(b); len(f) >= 20 && string(f[0]) == "Z" && string(f[1]) == self {
			out[pid] = string(f[19])
		}
	}
	return out
}

// killSession kills what is left of a session whose launcher was killed. Its leader is dead already (parent-death
// signal); a grandchild that made a session of its own is adopted instead. Called at once, before the leader's number can come
// round again.
func killSession(sid int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A handle first, then a look: what the handle means can't change any more.
		proc, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if sessionOf(pid) == sid {
			proc.Signal(syscall.SIGKILL)
		}
		proc.Release()
	}
}

// sessionOf reads a process's session id; 0 when it is gone.
func sessionOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := statFields(b)
	if len(fields) < 4 {
		return 0
	}
	sid, _ := strconv.Atoi(string(fields[3]))
	return sid
}
