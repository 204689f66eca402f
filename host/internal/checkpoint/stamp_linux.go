package checkpoint

import (
	"io/fs"
	"syscall"
	"time"
)

// changedAt is when a file was changed last. Nobody can set this one back.
func changedAt(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
