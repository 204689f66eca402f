package store

import (
	"io/fs"
	"os"
	"syscall"
)

// shortTemp is the same for every process of the user, unlike $TMPDIR.
const shortTemp = "/tmp"

// maxSocketPath is what fits into a socket's address on Linux, which ends with a zero byte.
const maxSocketPath = 107

func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
