//go:build unix

package child

import (
	"io"
	"os"
	"syscall"
)

// polled returns, for standard input, a reader of the same file that waits in the runtime's poller. A reply then wakes the goroutine that reads it and the
// engine's goroutine in one thread, where a thread that waits in a system call would have to wake another one.
func polled(in io.Reader) io.Reader {
	if in != os.Stdin || syscall.SetNonblock(syscall.Stdin, true) != nil {
		return in
	}
	return os.NewFile(uintptr(syscall.Stdin), os.Stdin.Name())
}
