// Package failure describes why a process did not start.
//
// It owns: the error of a failed start, the operating system's text of it, and the next step when a sandbox could not be created. It
// must not know: how processes are started.
//
// Start with [StartError].
package failure

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
	Err     error  // a cause other than an errno; may be nil
}

// New returns the error of a step that failed with an errno.
func New(op, path string, errno syscall.Errno) *StartError {
	return &StartError{Op: op, Path: path, Errno: errno, Message: Strerror(errno)}
}

// Of returns the error of a step of the host's own that failed, such as one that needs a free descriptor.
func Of(op string, err error) *StartError {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return New(op, "", errno)
	}
	return &StartError{Op: op, Message: err.Error(), Err: err}
}

// Error names the step, the path and the reason.
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

// Strerror returns the C library's text for an errno. Go's table has the same texts, but with a lower-case first letter.
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
