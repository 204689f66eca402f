//go:build linux || darwin

package plugin

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownFolder checks that nobody else can write to a folder that we rely on. It may have been there before us, in a place
// where others can make folders too.
func ownFolder(path string) error {
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
			return fmt.Errorf("%s can be entered by others: %w", path, err)
		}
	}
	return nil
}

// lockFile takes the file's lock, and waits for it if wait is set.
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

// allocated is what a file takes on the disk, which for one with holes is less than its length.
func allocated(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
