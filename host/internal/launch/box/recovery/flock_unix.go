//go:build unix

package recovery

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a file without waiting. It fails if another process holds the lock.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// Unlock releases the lock explicitly. Closing the file is not enough: a process that is being started holds a copy of the
// descriptor until it executes its program, and the lock with it.
func Unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
