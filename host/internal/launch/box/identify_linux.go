package box

import (
	"io/fs"
	"syscall"
)

// identify looks at a path without following it. It is asked about every folder, so it makes no more of the answer than is
// needed.
func identify(path string) (identity, fs.FileMode, bool) {
	var st syscall.Stat_t
	for {
		err := syscall.Lstat(path, &st)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return identity{}, 0, false
		}
		break
	}
	mode := fs.ModeIrregular
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode = fs.ModeDir
	case syscall.S_IFLNK:
		mode = fs.ModeSymlink
	case syscall.S_IFREG:
		mode = 0
	}
	return identity{dev: st.Dev, ino: st.Ino, changed: st.Ctim.Nano(), size: st.Size}, mode, true
}
