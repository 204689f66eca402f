package fspath

import "syscall"

// openPath opens for reading: there is no less here.
const openPath = 0

// changed is when a file was last changed, or anything about it, in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// BirthTime is when a file was made, in nanoseconds.
func BirthTime(path string) int64 {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return 0
	}
	return st.Birthtimespec.Nano()
}
