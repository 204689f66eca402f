package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// killSession kills what is left of a session whose launcher was killed: nothing else ends with that here, not even its leader. What
// made a session of its own is found if its parent is in this one.
func killSession(sid int) {
	const rounds = 8 // of looking for what was being forked
	for range rounds {
		list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
		if err != nil {
			return
		}
		in := map[int]bool{}
		for grown := true; grown; {
			grown = false
			for i := range list {
				pid, parent := int(list[i].Proc.P_pid), int(list[i].Eproc.Ppid)
				if in[pid] || pid == os.Getpid() {
					continue
				}
				if at, err := unix.Getsid(pid); in[parent] || err == nil && at == sid {
					in[pid], grown = true, true
				}
			}
		}
		const zombie = 5 // SZOMB
		left := false
		for i := range list {
			if pid := int(list[i].Proc.P_pid); in[pid] && list[i].Proc.P_stat != zombie {
				left = syscall.Kill(pid, syscall.SIGKILL) == nil || left
			}
		}
		if !left {
			return
		}
	}
}

// Adopt does nothing: this system hands orphans to its first process.
func (l *Launcher) Adopt() error { return nil }
