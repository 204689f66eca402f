//go:build unix

package secret

import (
	"errors"
	"os"
	"syscall"
)

// withLock runs f while no other process runs one for the same folder. Who holds it waits for a keyring at most, which has its
// bound.
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
