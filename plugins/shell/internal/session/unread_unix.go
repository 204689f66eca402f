//go:build unix

package session

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread reports whether the kernel has output that was not read from out. It returns false if out has no descriptor.
func unread(out io.Reader) (some bool) {
	c, ok := out.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		some = err == nil && n > 0 && p[0].Revents&unix.POLLIN != 0
	})
	return some && err == nil
}
