//go:build linux || darwin

package tree

import "golang.org/x/sys/unix"

func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// fstatat looks at a name in a folder without following a symbolic link.
func fstatat(fd int, name string, st *unix.Stat_t) error {
	return retry(func() error { return unix.Fstatat(fd, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}
