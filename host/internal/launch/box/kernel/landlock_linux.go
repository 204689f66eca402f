package kernel

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Supported returns an error if processes can't be confined on this system.
func Supported() error {
	if architectures[runtime.GOARCH] == 0 {
		return fmt.Errorf("confinement is not supported on %s yet", runtime.GOARCH)
	}
	return nil
}

// Landlock's access rights for changing files.
const (
	rightWrite      = 1 << 1
	rightsOfFirst   = rightWrite | 0x1ff0 // and the rights to remove and to create files of every type
	rightRefer      = 1 << 13             // since version 2
	rightTruncate   = 1 << 14             // since version 3
	rightDevice     = 1 << 15             // ioctl on devices, since version 5
	rightsOfFiles   = rightWrite | rightTruncate | rightDevice
	scopeAbstract   = 1 << 0 // abstract Unix sockets, since version 6
	scopeSignal     = 1 << 1
	versionOfScopes = 6

	versionOfDevices = 5
)

// LandlockVersion returns the version of Landlock that the kernel supports, 0 if none.
var LandlockVersion = sync.OnceValue(func() int {
	const create, askVersion = 444, 1
	v, _, errno := syscall.Syscall(create, 0, 0, askVersion)
	if errno != 0 {
		return 0
	}
	return int(v)
})

// LandlockRules returns the rules that let a process write only below writable and to what is created for its sandbox. They are a
// second layer behind the mounts. Without Landlock the rules only name the paths.
func LandlockRules(writable []string, tmp bool) (handled, scoped uint64, list []control.Rule) {
	for _, w := range writable {
		if w != "/tmp" || tmp {
			list = append(list, control.Rule{Path: w})
		}
	}
	version := LandlockVersion()
	if version == 0 {
		return 0, 0, list
	}
	handled = rightsOfFirst
	if version >= 2 {
		handled |= rightRefer
	}
	if version >= 3 {
		handled |= rightTruncate
	}
	if version >= versionOfScopes {
		scoped = scopeAbstract | scopeSignal
	}
	for i := range list {
		list[i].Access = handled
	}
	list = append(list, control.Rule{Path: "/dev", Access: handled})
	return handled, scoped, append(list, control.Rule{Path: "/proc", Access: rightWrite | handled&rightTruncate})
}

// PluginLandlockRules returns the rules for a plugin's process. It may write to some devices and to nothing in /proc. gantry-launch
// adds what it creates for the sandbox.
func PluginLandlockRules(writable []string) (handled, scoped uint64, list []control.Rule) {
	handled, scoped, list = LandlockRules(writable, true)
	if handled == 0 {
		return 0, 0, list
	}
	list = list[:len(writable)] // without /dev and /proc, which a plugin's sandbox does not have for itself
	if LandlockVersion() >= versionOfDevices {
		handled |= rightDevice
	}
	for i := range list {
		list[i].Access = handled
		if info, err := os.Stat(list[i].Path); err == nil && !info.IsDir() {
			list[i].Access &= rightsOfFiles
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		list = append(list, control.Rule{Path: "/dev/" + name, Access: handled & rightsOfFiles})
	}
	return handled, scoped, list
}
