package cli

import "golang.org/x/sys/unix"

// keepOut keeps debuggers away from this process, those of commands of a model among them, and its memory from being dumped: it holds
// keys. The environment that it was started with stays visible to other processes of the user's that are in no sandbox.
func keepOut() {
	_ = unix.PtraceDenyAttach() // there is nothing to do about it where it is refused
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
