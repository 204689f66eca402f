package workbench

import (
	"io/fs"
	"os"
	"syscall"
)

// birth returns when a file was created, in milliseconds; 0: unknown.
func birth(_ *os.Root, _ string, info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Birthtimespec.Nano() / 1e6
	}
	return 0
}
