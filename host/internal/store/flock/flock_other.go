//go:build !linux && !darwin

package flock

import (
	"os"
	"runtime"

	"github.com/gantry-agent/gantry/config/hint"
)

var errUnsupported = hint.New("locking files between processes is not supported on "+runtime.GOOS+" yet", "run gantry on Linux or macOS")

func tryLock(*os.File, bool) (bool, error) { return false, errUnsupported }

func waitLock(*os.File, bool) error { return errUnsupported }

func unlock(*os.File) error { return errUnsupported }

// Alive always returns false: it is not implemented for this system.
func Alive(int) bool { return false }
