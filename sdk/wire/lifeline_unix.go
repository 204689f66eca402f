//go:build unix

package wire

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// openLifeline opens the descriptor whose number is in [LifelineEnv]. Child processes don't inherit it.
func openLifeline(lookup func(string) (string, bool)) (*os.File, error) {
	s, ok := lookup(LifelineEnv)
	if !ok {
		return nil, fmt.Errorf("%s is not set: only a gantry host can start this plugin", LifelineEnv)
	}
	fd, err := strconv.Atoi(s)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is %q: it must be the number of a descriptor greater than 2", LifelineEnv, s)
	}
	syscall.CloseOnExec(fd)
	// Non-blocking, so that closing the file ends a read in progress.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("open lifeline on descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "lifeline"), nil
}
