package launch

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Flags of messages that the kernel has here: descriptors that come are closed by executing, and who writes to nobody hears it from
// an error alone.
const flagCloexec, flagNoSignal = syscall.MSG_CMSG_CLOEXEC, syscall.MSG_NOSIGNAL

// newSocketpair makes two connected sockets that no process inherits.
func newSocketpair() ([2]int, error) {
	return syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
}

// newPipe makes a pipe that no process inherits.
func newPipe() (fds [2]int, err error) {
	err = syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	return fds, err
}

// newMemory makes memory that can be mapped by whoever has the descriptor. Its size is final: a process that maps it must
// not find less than there was.
func newMemory(size int) (*os.File, error) {
	const name, flags = "gantry-session", unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), Memory)
	err = unix.Ftruncate(fd, int64(size))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
