package cli

import "golang.org/x/sys/unix"

// keepOut hides this process from others of the same user, including a model's commands: its environment and memory contain keys,
// which cannot be read, written or dumped. It does not affect child processes.
func keepOut() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // can only fail for invalid values
}
