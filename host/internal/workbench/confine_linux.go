package workbench

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// privileged reports whether this process has capabilities, as root has, with which it reads and writes files of other users.
func privileged() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return true // then the thread is confined, or the request fails
	}
	return data[0].Effective|data[1].Effective != 0
}

// confineThread takes all capabilities from the calling goroutine's thread, which ends with the goroutine.
func confineThread() error {
	runtime.LockOSThread() // and never unlocked: no other goroutine gets the thread
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capset(&hdr, &data[0])
}
