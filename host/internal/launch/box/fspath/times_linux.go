package fspath

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// openPath opens a folder without the right to read it.
const openPath = unix.O_PATH

// changed returns the change time in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// BirthTime returns the time at which a file was created, in nanoseconds, or 0 if its file system does not record it.
func BirthTime(path string) int64 {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
