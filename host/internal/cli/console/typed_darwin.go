package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped discards unread terminal input, including an incomplete line.
func discardTyped(terminal *os.File) {
	const queueRead = 1                                                        // FREAD
	_ = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCFLUSH, queueRead) // a closed terminal has no input
}

// Foreground reports whether this process may read from its terminal. A background process would be stopped for trying.
func Foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
