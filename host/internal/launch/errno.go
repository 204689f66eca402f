package launch

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// StartError says why a process did not start.
type StartError struct {
	Op      string // "chdir", "exec", "limit", ...
	Path    string // the folder or program
	Errno   syscall.Errno
	Message string // the operating system's text, for example "No such file or directory"
	Denied  bool   // a confiner refused
	Err     error  // a cause that is no errno; may be nil
}

func newStartError(op, path string, errno syscall.Errno) *StartError {
	return &StartError{Op: op, Path: path, Errno: errno, Message: Strerror(errno)}
}

// Error names step, path and reason.
func (e *StartError) Error() string {
	if e.Path == "" {
		return e.Op + ": " + e.Message
	}
	return fmt.Sprintf("%s %s: %s", e.Op, e.Path, e.Message)
}

// Unwrap returns the errno and the cause, so that errors.Is finds fs.ErrNotExist and the like.
func (e *StartError) Unwrap() []error {
	var errs []error
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// Strerror returns the text that the C library has for an errno. Go's table has the same texts, except that a capital
// before a small letter at the beginning was made small.
func Strerror(errno syscall.Errno) string {
	s := errno.Error()
	if n, ok := strings.CutPrefix(s, "errno "); ok {
		return "Unknown error " + n
	}
	if len(s) > 1 && 'a' <= s[0] && s[0] <= 'z' && !('A' <= s[1] && s[1] <= 'Z') {
		s = string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

func errnoIn(err error) (syscall.Errno, bool) { return errors.AsType[syscall.Errno](err) }
