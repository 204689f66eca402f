package fspath

import "syscall"

// openPath is empty: macOS has no flag for opening a file without rights to its content.
const openPath = 0

// changed returns the change time in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// BirthTime returns the time at which a file was created, in nanoseconds.
func BirthTime(path string) int64 {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return 0
	}
	return st.Birthtimespec.Nano()
}
