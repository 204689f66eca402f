package quarantine

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// anchor refers to a folder wherever it is renamed to, as the mounts of sandboxed processes do.
type anchor struct{ file *os.File }

// anchorAt returns nil if there is no folder at dir.
func anchorAt(dir string) *anchor {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &anchor{os.NewFile(uintptr(fd), dir)}
}

// is reports whether the folder is at path.
func (a *anchor) is(path string) bool {
	info, err := a.file.Stat()
	now, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(info, now)
}

// path returns the folder's current path, or one that does not exist if the folder was removed.
func (a *anchor) path() string {
	to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(a.file.Fd())))
	if err != nil || !a.is(to) {
		return a.file.Name() + " (removed)/"
	}
	return to
}

func (a *anchor) close() { a.file.Close() }
