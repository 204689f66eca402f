//go:build unix

package secret

import (
	"errors"
	"os"
	"syscall"
)

// withLock runs f while this process has the folder locked. It blocks without a timeout: a holder waits at most for a keyring, which has
// one.
func withLock(dir string, f func() error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		}
		return f()
	}
}
