//go:build unix

package profile

import (
	"os"

	"golang.org/x/sys/unix"
)

// share locks an open folder, as others may do at the same time.
func share(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != unix.EINTR {
			return err
		}
	}
}

// lock locks an open folder for this process alone, if nobody else has.
func lock(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }

// Hold keeps a folder in use until this process ends, also if it becomes another program.
func Hold(folder string) error {
	fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// A browser is controlled over the descriptors below.
	const above = 10
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, above)
	if err != nil {
		return err
	}
	return unix.Flock(kept, unix.LOCK_SH)
}
