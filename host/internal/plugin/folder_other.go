//go:build !linux && !darwin

package plugin

import (
	"os"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

func ownFolder(string) error { return nil }

func lockFile(*os.File, bool) error { return proc.ErrUnsupported }

func allocated(info os.FileInfo) int64 { return info.Size() }

func inUse([]string) (disk, bool) { return disk{}, false }
