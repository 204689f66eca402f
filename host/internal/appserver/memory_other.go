//go:build !linux

package appserver

// residentMemory is not known on this system.
func residentMemory() (uint64, bool) { return 0, false }
