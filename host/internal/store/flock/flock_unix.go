//go:build linux || darwin

package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks the file without waiting. Closing f releases the lock.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), mode(exclusive)|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, err
		}
	}
}

func mode(exclusive bool) int {
	if exclusive {
		return unix.LOCK_EX
	}
	return unix.LOCK_SH
}

// waitLock waits until it has locked the file.
func waitLock(f *os.File, exclusive bool) error {
	for {
		if err := unix.Flock(int(f.Fd()), mode(exclusive)); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// Alive reports whether a process with this ID exists.
func Alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}
