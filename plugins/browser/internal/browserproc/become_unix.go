//go:build unix

package browserproc

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/plugins/browser/internal/profile"
)

// Main replaces this process by the browser of the command line. The browser reads commands from what is standard input now, and writes
// to standard output; its own output goes to standard error. Main returns only if it fails.
func Main(args []string) int {
	err := profile.Hold(args[2])
	if err == nil {
		err = become(args[3:])
	}
	fmt.Fprintf(os.Stderr, "start %s: %v\n", args[3], err)
	return 1
}

func become(argv []string) error {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	// Standard input and output first move out of the way: one of them, or null, may be 3 or 4 already.
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return err
	}
	out, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return err
	}
	if null, err = unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 10); err != nil {
		return err
	}
	// The descriptors of the runtime's own poller are often 3 and 4, and it must not look at them any more: there is one processor, which
	// this goroutine keeps, and the monitor polls 10 ms after the last time at the earliest.
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	<-time.After(time.Millisecond)
	for _, d := range [][2]int{{null, 0}, {2, 1}, {in, 3}, {out, 4}} {
		if err := dup(d[0], d[1]); err != nil {
			return err
		}
	}
	return unix.Exec(argv[0], argv, os.Environ())
}
