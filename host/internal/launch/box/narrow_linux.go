package box

import (
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"golang.org/x/sys/unix"
)

// folderWithoutLinks identifies the folder at an absolute path without following symbolic links.
func folderWithoutLinks(path string) (fspath.Inode, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ELOOP) {
		return fspath.Inode{}, errors.New("a symbolic link leads there; remove the link")
	}
	if err != nil {
		return fspath.Inode{}, fmt.Errorf("open it: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fspath.Inode{}, err
	}
	return fspath.Inode{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}
