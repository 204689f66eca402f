package wire

import (
	"os"
	"runtime"
)

// OneProcessor limits the program to one processor, unless GOMAXPROCS is set. It is meant for plugins that forward what
// others compute: with more processors, Go's scheduler keeps a second one busy looking for work, which takes it from the
// host and the command. On two processors, that costs a millisecond per turn, and a tenth to a third of the deltas per
// second.
func OneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
