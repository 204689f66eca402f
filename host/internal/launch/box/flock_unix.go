//go:build unix

package box

import (
	"os"

	"golang.org/x/sys/unix"
)

// flock takes a lock on a file: alone, if nobody else has one, or shared, once nobody has it alone.
func flock(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
