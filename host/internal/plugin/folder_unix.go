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

// inUse is what is in use of the file systems that folders lie in.
func inUse(folders []string) (d disk, ok bool) {
	seen := map[unix.Fsid]bool{}
	for _, dir := range folders {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) != nil || seen[fs.Fsid] {
			continue
		}
		seen[fs.Fsid] = true
		d.bytes += int64(fs.Blocks-fs.Bfree) * int64(fs.Bsize)
		d.entries += int64(fs.Files - fs.Ffree)
	}
	return d, len(seen) > 0
}
