//go:build unix

package durable

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func tryLock(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = errBusy
		}
		return nil, errors.Join(err, f.Close())
	}
}
