package tree

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openPath opens for reading: macOS has no weaker way to open a folder.
const openPath = unix.O_RDONLY

func changed(st *unix.Stat_t) int64 { return st.Ctim.Nano() }

// openAt opens a folder relative to another one. No element may be a symbolic link.
func openAt(dir int, rel string, flags int) (int, error) {
	if rel == "" {
		rel = "."
	}
	flags |= unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	at := dir
	for {
		name, rest, more := strings.Cut(rel, "/")
		var fd int
		err := retry(func() (err error) { fd, err = unix.Openat(at, name, flags, 0); return err })
		if at != dir {
			unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, rel = fd, rest
	}
}

// list calls f for each name in a folder, with its inode number and its type, 0 if unknown.
func list(fd int, _ []byte, f func(name string, entry uint64, mode uint32)) error {
	own, err := openAt(fd, "", unix.O_RDONLY)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(own), "folder")
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			var st unix.Stat_t
			if fstatat(fd, name, &st) == nil {
				f(name, st.Ino, uint32(st.Mode)&unix.S_IFMT)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// passable reports whether files in a folder can be reached by name.
func passable(fd int) bool { return unix.Faccessat(fd, ".", unix.X_OK, 0) == nil }

// deprioritize does nothing: threads have no priority of their own.
func deprioritize(bool) {}

// kindOf reports no foreign file systems.
func kindOf(int) (skip bool, foreign string) { return false, "" }
