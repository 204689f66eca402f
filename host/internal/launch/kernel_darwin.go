package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Flags of messages: there are none. Descriptors come without being asked for nowhere, and who writes to nobody is said on the socket.
const flagCloexec, flagNoSignal = 0, 0

// newSocketpair makes two connected sockets that no process inherits.
func newSocketpair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return fds, err
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_NOSIGPIPE, 1); err != nil {
			return fds, err
		}
	}
	return fds, nil
}

// newPipe makes a pipe that no process inherits.
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

// newMemory makes memory that can be mapped by whoever has the descriptor: a file that has no name any more.
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
