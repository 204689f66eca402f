//go:build !linux

package kernel

import (
	"fmt"
	"runtime"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Supported returns an error if processes can't be confined on this system.
func Supported() error {
	if runtime.GOOS == "darwin" {
		return nil
	}
	return fmt.Errorf("confinement is not supported on %s yet", runtime.GOOS)
}

// LandlockVersion is 0: there is no Landlock.
func LandlockVersion() int { return 0 }

// LandlockRules returns nothing.
func LandlockRules([]string, bool) (handled, scoped uint64, list []control.Rule) { return 0, 0, nil }

// Filter returns nothing.
func Filter(bool, bool) []byte { return nil }

// NarrowFilter returns nothing.
func NarrowFilter() []byte { return nil }

// PluginFilter returns nothing.
func PluginFilter(bool, bool) []byte { return nil }

// PluginLandlockRules returns nothing.
func PluginLandlockRules([]string) (handled, scoped uint64, list []control.Rule) { return 0, 0, nil }
