package failure_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/failure"
)

func TestStrerror(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOENT: "No such file or directory", syscall.EACCES: "Permission denied", syscall.ENOTDIR: "Not a directory",
		syscall.E2BIG: "Argument list too long", syscall.ENOEXEC: "Exec format error", syscall.EPERM: "Operation not permitted",
		syscall.EMFILE: "Too many open files", 4711: "Unknown error 4711",
	} {
		if got := failure.Strerror(errno); got != want && errno < 1<<29 { // Windows has numbers of its own
			t.Errorf("errno %d: %q, want %q", int(errno), got, want)
		}
	}
}

func TestStartErrorText(t *testing.T) {
	t.Parallel()
	e := &failure.StartError{Op: "chdir", Path: "/none", Errno: syscall.ENOENT, Message: "No such file or directory"}
	if got, want := e.Error(), "chdir /none: No such file or directory"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(e, syscall.ENOENT) {
		t.Error("the errno is not found")
	}
}
