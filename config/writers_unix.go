//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

// writers describes which other users can write a file, or returns "" if only the user and root can. The user's primary group does
// not count: with umask 002 a user's files belong to a group that has no other member.
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
