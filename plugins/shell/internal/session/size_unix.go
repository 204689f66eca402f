//go:build unix

package session

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/sdk/process"
)

// windowSize returns the size of the terminal that out is. It returns false if out is no terminal, or has no descriptor.
func windowSize(out io.Reader) (size process.Size, ok bool) {
	c, ok := out.(syscall.Conn)
	if !ok {
		return size, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return size, false
	}
	ok = false
	err = raw.Control(func(fd uintptr) {
		if w, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
			size, ok = process.Size{Rows: uint32(w.Row), Cols: uint32(w.Col)}, w.Row > 0 && w.Col > 0
		}
	})
	return size, ok && err == nil
}
