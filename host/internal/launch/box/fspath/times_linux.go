package fspath

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// openPath opens what may not be read.
const openPath = unix.O_PATH

// changed is when a file was last changed, or anything about it, in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// BirthTime is when a file was made, in nanoseconds; 0 where its file system does not know.
func BirthTime(path string) int64 {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
