//go:build linux || darwin

package socketdir

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkOwner checks that path is a folder of this user, and removes other users' permissions. It may have existed before,
// in a place where other users can create folders too.
func checkOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", path)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", path)
	case info.Mode().Perm()&0o077 != 0:
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("%s is accessible to other users: %w", path, err)
		}
	}
	return nil
}

// lockFile takes an exclusive lock of the file. If another process holds it, lockFile waits or, without wait, fails.
func lockFile(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}
