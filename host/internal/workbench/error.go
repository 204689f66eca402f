package workbench

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// osText returns the reason of err without operation and relative path, for errors that name the whole path.
func osText(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// isMissing reports whether err says that a path does not exist, also because an element on the way is not a folder.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }
