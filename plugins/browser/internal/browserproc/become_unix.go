//go:build unix

package browserproc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/plugins/browser/internal/profile"
)

// shell is the program that moves the descriptors. This process can't: 3 and 4 often belong to the poller of its runtime, which may look at
// them at any time.
const shell = "/bin/sh"

// move makes standard input and output 3 and 4. What else the browser prints goes to standard error.
const move = `exec "$@" 3<&0 4>&1 </dev/null >&2`

// Main replaces this process by the browser of the command line. The browser reads commands from what is standard input now, and writes
// to standard output; its own output goes to standard error. Main returns only if it fails.
func Main(args []string) int {
	err := profile.Hold(args[2])
	if err == nil {
		err = unix.Exec(shell, append([]string{shell, "-c", move, shell}, args[3:]...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "start %s: %v\n", args[3], err)
	return 1
}
