package appserver

import (
	"net"

	"golang.org/x/sys/unix"
)

// alive returns a check whether the process at the other end of a connection still runs. The system has no handles of processes.
func alive(_ *net.UnixConn, pid int) (check func() bool, done func(), err error) {
	return func() bool { return unix.Kill(pid, 0) == nil }, func() {}, nil
}

// parent is the process that a process belongs to, and when the process started.
func parent(pid int) (ppid int, started uint64, err error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, 0, err
	}
	at := p.Proc.P_starttime
	return int(p.Eproc.Ppid), uint64(at.Sec)*1e6 + uint64(at.Usec), nil
}
