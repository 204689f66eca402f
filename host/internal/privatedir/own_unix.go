//go:build linux || darwin

package privatedir

import (
	"io/fs"
	"os"
	"syscall"
)

func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
