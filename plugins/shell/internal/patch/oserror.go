package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// OSText returns an error of the operating system in the form that its own tools print, with its number.
func OSText(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text := errno.Error()
		return fmt.Sprintf("%s%s (os error %d)", strings.ToUpper(text[:1]), text[1:], int(errno))
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}

// denied reports whether err is a refusal by a sandbox or a file mode.
func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EROFS)
}
