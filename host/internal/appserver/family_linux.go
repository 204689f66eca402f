package appserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// soPeerPidfd is the option that gives a handle of the peer, from Linux 6.5 on.
const soPeerPidfd = 77

// alive returns a check whether the process at the other end of a connection, whose number is pid, still runs: while it does the number
// is not given to another.
func alive(conn *net.UnixConn, pid int) (check func() bool, done func(), err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	fd := -1
	var got error
	if err := raw.Control(func(sock uintptr) {
		if fd, got = unix.GetsockoptInt(int(sock), unix.SOL_SOCKET, soPeerPidfd); errors.Is(got, unix.ENOPROTOOPT) {
			fd, got = unix.PidfdOpen(pid, 0)
		}
	}); err != nil {
		return nil, nil, err
	}
	if got != nil {
		return nil, nil, fmt.Errorf("process %d: %w", pid, got)
	}
	return func() bool { return unix.PidfdSendSignal(fd, 0, nil, 0) == nil }, func() { unix.Close(fd) }, nil
}

// parent is the process that a process belongs to, and when the process started.
func parent(pid int) (ppid int, started uint64, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat is cut off", pid)
	}
	if ppid, err = strconv.Atoi(string(f[1])); err != nil {
		return 0, 0, err
	}
	started, err = strconv.ParseUint(string(f[19]), 10, 64)
	return ppid, started, err
}
