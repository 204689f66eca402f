package provider

import "golang.org/x/sys/unix"

// denyInspection prevents other processes of the same user from reading the memory of this one, which will contain keys. The owner of
// its user namespace could still do so, but the host prevents that by starting the plugin from files that are not readable.
func denyInspection() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // fails only for invalid values
}
