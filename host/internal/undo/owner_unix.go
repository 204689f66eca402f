//go:build unix

package undo

import (
	"io/fs"
	"os"
	"syscall"
)

// copyOwner sets the owner of a file to that of the file that it replaces, if that is permitted.
func copyOwner(f *os.File, as fs.FileInfo) {
	st, ok := as.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid() {
		return
	}
	_ = f.Chown(int(st.Uid), int(st.Gid))
}

// linkCount returns the number of hard links of a file.
func linkCount(info fs.FileInfo) int {
	if info == nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		return int(st.Nlink)
	}
	return 1
}
