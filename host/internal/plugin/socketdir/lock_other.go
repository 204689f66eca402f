//go:build !linux && !darwin

package socketdir

import (
	"os"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

func checkOwner(string) error { return nil }

func lockFile(*os.File, bool) error { return proc.ErrUnsupported }
