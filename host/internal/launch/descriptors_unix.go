//go:build unix

package launch

import (
	"net"
	"os"
	"syscall"
)

// duplicate returns a second descriptor of the same open file.
func duplicate(f *os.File) (*os.File, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	if err := conn.Control(func(raw uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, dupErr = syscall.Dup(int(raw)); dupErr == nil {
			syscall.CloseOnExec(fd)
		}
	}); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, dupErr
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// sendFiles sends one message of one byte with the files' descriptors.
func sendFiles(socket *net.UnixConn, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		conn, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if err := conn.Control(func(raw uintptr) { fds[i] = int(raw) }); err != nil {
			return err
		}
	}
	_, _, err := socket.WriteMsgUnix([]byte{0}, syscall.UnixRights(fds...), nil)
	return err
}

func setNonblock(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		conn.Control(func(raw uintptr) { syscall.SetNonblock(int(raw), true) })
	}
}
