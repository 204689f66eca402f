package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped discards unread terminal input, including an incomplete line.
func discardTyped(terminal *os.File) {
	_ = unix.IoctlSetInt(int(terminal.Fd()), unix.TCFLSH, unix.TCIFLUSH) // a closed terminal has no input
}

// Foreground reports whether this process may read from its terminal. A background process would be stopped for trying.
func Foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
