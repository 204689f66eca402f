//go:build unix

package background

import "syscall"

// detached gives a process a session of its own, so that neither the end of the terminal nor its Ctrl-C reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
