package monitor

import "syscall"

// Flags of messages: received descriptors are closed on exec, and writing to a closed socket returns an error without a signal.
const flagCloexec, flagNoSignal = syscall.MSG_CMSG_CLOEXEC, syscall.MSG_NOSIGNAL

// socketpair returns two connected sockets that are closed on exec.
func socketpair() ([2]int, error) {
	return syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
}
