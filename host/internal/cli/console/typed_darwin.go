package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped forgets what was typed on a terminal and not read yet, a line that was only begun included.
func discardTyped(terminal *os.File) {
	const queueRead = 1                                                        // FREAD
	_ = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCFLUSH, queueRead) // a terminal that is gone has nothing to read
}

// Foreground tells whether this process may read from its terminal: one in the background would be stopped for trying.
func Foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
