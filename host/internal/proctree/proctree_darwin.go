package proctree

import (
	"net"

	"golang.org/x/sys/unix"
)

// alive returns a function that reports whether the peer of a connection is still running. The system has no handles of processes.
func alive(_ *net.UnixConn, pid int) (check func() bool, done func(), err error) {
	return func() bool { return unix.Kill(pid, 0) == nil }, func() {}, nil
}

// parent returns the parent of a process, and the start time of the process.
func parent(pid int) (ppid int, started uint64, err error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, 0, err
	}
	at := p.Proc.P_starttime
	return int(p.Eproc.Ppid), uint64(at.Sec)*1e6 + uint64(at.Usec), nil
}
