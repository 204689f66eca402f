package wire

import (
	"os"
	"runtime"
)

// OneProcessor lets the program use one processor at a time, unless GOMAXPROCS is set. It is for plugins that pass on what
// others compute: with more, Go's scheduler keeps a second processor busy looking for work that is not there, and takes it
// from the host and the command that are being waited for. On two processors that costs a turn a millisecond, and a tenth
// to a third of all deltas per second.
func OneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
