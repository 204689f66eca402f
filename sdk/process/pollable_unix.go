//go:build unix

package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollable returns a file whose Read ends when it is closed. Files that come out of a control message may be in blocking
// mode, where Close waits for Read instead. It takes f.
func pollable(f *os.File) (*os.File, error) {
	if f.SetDeadline(time.Time{}) == nil {
		return f, nil
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := raw.Control(func(old uintptr) { fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
