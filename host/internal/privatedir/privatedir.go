// Package privatedir makes folders that only their owner can enter.
//
// It owns: how such a folder is made, and how one is checked that was there before. It must not know: what is kept in it.
//
// Start with [Make].
package privatedir

import (
	"fmt"
	"os"
	"runtime"

	"github.com/gantry-agent/gantry/config/hint"
)

// Make creates the folder dir and its parents if they are missing, and removes the access that others have to it.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return hint.With(err, "make the folder above writable, or set GANTRY_HOME to another one")
	}
	if runtime.GOOS == "windows" {
		return nil // access follows the lists that a folder inherits from the user's profile
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// MakeShared creates the folder dir in a place where other users can create folders too, such as /tmp. An existing dir must
// be a private folder of this user, and not a symbolic link to one.
func MakeShared(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !isOwn(info) {
		return fmt.Errorf("%s is not a private folder of this user", dir)
	}
	return nil
}
