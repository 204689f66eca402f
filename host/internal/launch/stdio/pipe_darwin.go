package stdio

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newPipe returns a pipe that is closed on exec.
func newPipe() (fds [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds[:]); err != nil {
		return fds, err
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return fds, nil
}

// newMemory returns memory that can be mapped by every process that has the descriptor: a file that has been removed.
func newMemory(size int) (*os.File, error) {
	f, err := os.CreateTemp("", "gantry-session-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		err = unix.Ftruncate(int(f.Fd()), int64(size))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
