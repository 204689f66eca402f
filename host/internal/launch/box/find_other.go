//go:build !linux && !darwin

package box

import (
	"fmt"
	"runtime"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

func supported() error { return fmt.Errorf("confinement is not supported on %s yet", runtime.GOOS) }

func findHelper() (string, error) { return "", supported() }

func landlock() int { return 0 }

func rules([]string, bool) (handled, scoped uint64, list []control.Rule) { return 0, 0, nil }

func filter(bool, bool) []byte { return nil }

func cageFilter(bool, bool) []byte { return nil }

func cageRules([]string) (handled, scoped uint64, list []control.Rule) { return 0, 0, nil }
