package box

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// openPath opens what may not be read.
const openPath = unix.O_PATH

// changed is when a file was last changed, or anything about it, in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
