//go:build unix

package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makePipe makes a named pipe that this process and its launchers keep open. A reader sees the end of file when the last of them
// has exited.
func makePipe(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}

// duplicate returns another descriptor of a file, or nil.
func duplicate(f *os.File) (d *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			d = os.NewFile(uintptr(n), f.Name())
		}
	})
	return d
}

// openPipe opens the pipe of a gantry that was killed, or returns nil if no process holds it any more.
func openPipe(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if isHeld(f) {
		return f
	}
	f.Close()
	return nil
}

func isHeld(f *os.File) (is bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			_, err := unix.Read(int(fd), make([]byte, 1))
			if !errors.Is(err, unix.EINTR) {
				is = errors.Is(err, unix.EAGAIN)
				return
			}
		}
	})
	return is
}
