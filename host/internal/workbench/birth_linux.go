package workbench

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// birth returns when a file was created, in milliseconds; 0: the file system does not know. It does not follow a symbolic link.
func birth(dir *os.Root, name string, _ fs.FileInfo) int64 {
	f, err := dir.Open(".")
	if err != nil {
		return 0
	}
	defer f.Close()
	var st unix.Statx_t
	if unix.Statx(int(f.Fd()), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1000 + int64(st.Btime.Nsec)/1e6
}
