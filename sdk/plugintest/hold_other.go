//go:build !linux

package plugintest

import (
	"errors"
	"os/exec"
)

var errHold = errors.New("a plugin can't be confined on this system")

func holdSupported(hold) error { return errHold }

func startHeld(*exec.Cmd, *hold) error { return errHold }

func watchOpens([]string) (func() []string, error) {
	return nil, errors.New("files can't be watched on this system")
}
