//go:build linux || darwin

package storage

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// allocated returns the disk space that a file takes. A sparse file takes less than its length.
func allocated(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// diskUsage adds up the usage of the file systems that contain the folders.
func diskUsage(folders []string) (d usage, ok bool) {
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
