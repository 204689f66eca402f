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

// The rights to files by which something is changed, as Landlock numbers them.
const (
	rightWrite      = 1 << 1
	rightsOfFirst   = rightWrite | 0x1ff0 // and removing and making of every kind
	rightRefer      = 1 << 13             // version 2
	rightTruncate   = 1 << 14             // version 3
	rightDevice     = 1 << 15             // version 5: ioctl on devices
	rightsOfFiles   = rightWrite | rightTruncate | rightDevice
	scopeAbstract   = 1 << 0 // version 6: sockets without a path
	scopeSignal     = 1 << 1
	versionOfScopes = 6

	versionOfDevices = 5
)

// LandlockVersion is the version that the kernel has; 0: none.
var LandlockVersion = sync.OnceValue(func() int {
	const create, askVersion = 444, 1
	v, _, errno := syscall.Syscall(create, 0, 0, askVersion)
	if errno != 0 {
		return 0
	}
	return int(v)
})

// LandlockRules are Landlock's, the second lock behind the mounts: writing only in the roots, and in what is made anew for the box.
// Where Landlock is missing they only name the roots.
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

// PluginLandlockRules are Landlock's for a plugin's process. It may write to some devices, and to nothing in /proc; what a cage makes anew it adds
// itself.
func PluginLandlockRules(writable []string) (handled, scoped uint64, list []control.Rule) {
	handled, scoped, list = LandlockRules(writable, true)
	if handled == 0 {
		return 0, 0, list
	}
	list = list[:len(writable)] // without those of a box that has a /dev and a /proc of its own
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
