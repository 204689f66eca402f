//go:build linux || darwin

package fspath

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Searchable reports whether files in a folder can be reached by name.
func Searchable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

// LacksRights reports whether the folder is ours and we lack the right to list or enter it, so that we could restore the right.
func LacksRights(path string) bool {
	var st unix.Stat_t
	me := os.Geteuid()
	return me != 0 && unix.Lstat(path, &st) == nil && int(st.Uid) == me && st.Mode&0o500 != 0o500
}

// MaxPath is the longest path that the kernel accepts in one call.
const MaxPath = 4096

// lstatDeep is Lstat for longer paths. It opens one folder after the other.
func lstatDeep(path string, st *syscall.Stat_t) error {
	at, err := os.OpenRoot("/")
	if err != nil {
		return err
	}
	dir, name := filepath.Split(strings.TrimPrefix(path, "/"))
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		next, err := at.OpenRoot(part)
		at.Close()
		if err != nil {
			return err
		}
		at = next
	}
	defer at.Close()
	info, err := at.Lstat(name)
	if err != nil {
		return err
	}
	*st = *info.Sys().(*syscall.Stat_t)
	return nil
}

// Lstat returns the identity and the type of a file without following a symbolic link. It is called for every folder, so it
// converts no more of the kernel's answer than needed.
func Lstat(path string) (Identity, fs.FileMode, bool) {
	var st syscall.Stat_t
	for {
		err := syscall.Lstat(path, &st)
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.ENAMETOOLONG {
			err = lstatDeep(path, &st)
		}
		if err != nil {
			return Identity{}, 0, false
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
	return Identity{Dev: uint64(st.Dev), Ino: st.Ino, Changed: changed(&st), Size: st.Size}, mode, true
}

// InodeOf returns the inode of a file and its number of names.
func InodeOf(info fs.FileInfo) (Inode, uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Inode{}, 0
	}
	return Inode{uint64(st.Dev), st.Ino}, uint64(st.Nlink)
}

// LinkCount returns the device and inode of the file at path and its number of names.
func LinkCount(path string) (id Identity, links uint64, ok bool) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return Identity{}, 0, false
	}
	return Identity{Dev: uint64(st.Dev), Ino: st.Ino}, uint64(st.Nlink), true
}

// LstatIn returns the identities of the folder that path is in and of path itself, both at the same moment. Symbolic links are not
// followed.
func LstatIn(path string) (in, id Identity, mode fs.FileMode, err error) {
	const onlyFolders = unix.O_DIRECTORY | unix.O_CLOEXEC
	folder, err := unix.Open(filepath.Dir(path), openPath|onlyFolders, 0)
	if err != nil {
		return Identity{}, Identity{}, 0, err
	}
	defer unix.Close(folder)
	var st unix.Stat_t
	if err := unix.Fstat(folder, &st); err != nil {
		return Identity{}, Identity{}, 0, err
	}
	in = Identity{Dev: uint64(st.Dev), Ino: st.Ino}
	if err := unix.Fstatat(folder, filepath.Base(path), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Identity{}, Identity{}, 0, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode = fs.ModeDir
	}
	return in, Identity{Dev: uint64(st.Dev), Ino: st.Ino}, mode, nil
}
