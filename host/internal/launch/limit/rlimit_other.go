//go:build !linux && !darwin

package limit

import "github.com/gantry-agent/gantry/host/internal/launch/control"

func (Set) rlimits() []control.Rlimit { return nil }

func (Set) endedBy(Usage) string { return "" }
