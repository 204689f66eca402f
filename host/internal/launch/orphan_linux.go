package launch

import (
	"os"
	"strconv"
	"syscall"
)

// killSession kills what is left of a session whose launcher was killed. Its leader is dead already (parent-death
// signal); a grandchild that made a session of its own is not found. Called at once, before the leader's number can come
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
