package cli

import "golang.org/x/sys/unix"

// keepOut hides this process from others of the same user, commands of a model among them: its environment and memory hold keys,
// and neither can be read nor written, nor dumped. What it starts is not concerned.
func keepOut() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // refused for no other value than a wrong one
}
