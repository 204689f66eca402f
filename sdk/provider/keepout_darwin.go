package provider

import "golang.org/x/sys/unix"

// denyInspection keeps debuggers away from this process, which will hold keys, and its memory from being dumped.
func denyInspection() {
	_ = unix.PtraceDenyAttach() // there is nothing to do about it where it is refused
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
