package box

import "syscall"

// changed is when a file was last changed, or anything about it, in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
