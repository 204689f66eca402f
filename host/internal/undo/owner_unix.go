//go:build unix

package undo

import (
	"io/fs"
	"os"
	"syscall"
)

// copyOwner gives a file the owner of the one whose place it takes, where that is allowed.
func copyOwner(f *os.File, as fs.FileInfo) {
	st, ok := as.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid() {
		return
	}
	_ = f.Chown(int(st.Uid), int(st.Gid))
}

// linkCount is how many names a file has.
func linkCount(info fs.FileInfo) int {
	if info == nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		return int(st.Nlink)
	}
	return 1
}
