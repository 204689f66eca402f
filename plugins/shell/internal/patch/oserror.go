package patch

import (
	"errors"
	"fmt"
	"syscall"
)

// errnoOf finds the number of an operating system's error and renders it.
func errnoOf(err error) (string, bool) {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%s (os error %d)", capital(errno.Error()), int(errno)), true
}

// denied reports whether err is how a sandbox or a file mode says no.
func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EROFS)
}
