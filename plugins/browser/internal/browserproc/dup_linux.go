package browserproc

import "golang.org/x/sys/unix"

// dup does not tell the scheduler, which would give the processor to another goroutine. Not every architecture has dup2.
func dup(from, to int) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_DUP3, uintptr(from), uintptr(to), 0); errno != 0 {
		return errno
	}
	return nil
}
