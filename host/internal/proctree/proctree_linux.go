package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// soPeerPidfd is the socket option that returns a pidfd of the peer, since Linux 6.5.
const soPeerPidfd = 77

// alive returns a function that reports whether the peer of a connection, with this PID, is still running. While it is, its PID is
// not reused.
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

// parent returns the parent of a process, and the start time of the process.
func parent(pid int) (ppid int, started uint64, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat is truncated", pid)
	}
	if ppid, err = strconv.Atoi(string(f[1])); err != nil {
		return 0, 0, err
	}
	started, err = strconv.ParseUint(string(f[19]), 10, 64)
	return ppid, started, err
}
