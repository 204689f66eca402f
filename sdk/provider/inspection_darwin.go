package provider

import "golang.org/x/sys/unix"

// denyInspection prevents debuggers from attaching to this process, which will have keys in memory, and core dumps of it.
func denyInspection() {
	_ = unix.PtraceDenyAttach() // best effort
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
