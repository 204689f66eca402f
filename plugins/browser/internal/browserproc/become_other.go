//go:build !unix

package browserproc

import (
	"fmt"
	"os"
)

// Main fails: a browser is controlled over descriptors that only unix systems pass on.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "the browser plugin does not run on this system yet; use it on Linux")
	return 1
}
