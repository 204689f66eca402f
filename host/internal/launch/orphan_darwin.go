package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// killSession kills what is left of a session whose gantry-launch was killed, including its leader: macOS has no parent-death signal. A
// process with a session of its own is found if its parent is in this one.
func killSession(sid int) {
	const rounds = 8 // the next round finds processes that were forked during a round
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
