package binary

import (
	"io/fs"
	"os"
	"syscall"
)

func identify(info os.FileInfo) (identity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{Dev: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Mtime: st.Mtimespec.Nano(), Ctime: st.Ctimespec.Nano()}, true
}

func executable(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 != 0 }
