//go:build unix

package wire

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// openLifeline takes over the descriptor that [LifelineEnv] names. No child inherits it.
func openLifeline(lookup func(string) (string, bool)) (*os.File, error) {
	s, ok := lookup(LifelineEnv)
	if !ok {
		return nil, fmt.Errorf("%s is not set: this plugin can be started by a gantry host only", LifelineEnv)
	}
	fd, err := strconv.Atoi(s)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is %q: it must be the number of a descriptor above 2", LifelineEnv, s)
	}
	syscall.CloseOnExec(fd)
	// Not blocking, so that a read in progress ends when the file is closed.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("open lifeline on descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "lifeline"), nil
}
