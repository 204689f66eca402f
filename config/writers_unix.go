//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

// writers says which other users may change a file; empty: none but root. A group is one if it is not the user's own: with umask 002 the
// files of a user belong to a group of that user alone.
func writers(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch perm := info.Mode().Perm(); {
	case !ok:
		return ""
	case perm&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
		return "every user"
	case st.Uid != 0 && int(st.Uid) != os.Getuid():
		return "another user"
	case perm&0o020 != 0 && st.Gid != 0 && int(st.Gid) != os.Getgid():
		return "a group"
	}
	return ""
}
