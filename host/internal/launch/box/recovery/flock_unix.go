//go:build unix

package recovery

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes a lock on a file, unless another process has it.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// Unlock gives a lock back at once: a process that is just being started holds a copy of the descriptor until it executes its program,
// and closing ours would leave the lock with that copy.
func Unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
