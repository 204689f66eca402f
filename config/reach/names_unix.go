//go:build unix

package reach

import (
	"os"
	"syscall"
)

// names returns the number of hard links of a file.
func names(path string) uint64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
