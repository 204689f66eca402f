//go:build !linux

package box

import (
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/host/internal/launch/box/kernel"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// findHelper returns macOS's program. It is never looked for in PATH, which may begin with the workspace.
func findHelper() (string, error) {
	if err := kernel.Supported(); err != nil {
		return "", err
	}
	if info, err := os.Stat(seatbelt.Program); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is missing, although it belongs to macOS", seatbelt.Program)
	}
	return seatbelt.Program, nil
}
