package monitor

import "syscall"

// macOS has no such flags for messages: descriptors are closed on exec once they have been received, and SO_NOSIGPIPE is an option of
// the socket.
const flagCloexec, flagNoSignal = 0, 0

// socketpair returns two connected sockets that are closed on exec.
func socketpair() ([2]int, error) {
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
