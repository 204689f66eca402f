package box

import (
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

func supported() error { return nil }

// findHelper returns the system's program. It is never looked for in PATH, which may begin with the workspace.
func findHelper() (string, error) {
	if info, err := os.Stat(seatbelt.Program); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is missing, which belongs to macOS", seatbelt.Program)
	}
	return seatbelt.Program, nil
}

func landlock() int { return 0 }

func rules([]string, bool) (handled, scoped uint64, list []control.Rule) { return 0, 0, nil }

func filter(bool, bool) []byte { return nil }

func cageFilter(bool, bool) []byte { return nil }

func cageRules([]string) (handled, scoped uint64, list []control.Rule) { return 0, 0, nil }
