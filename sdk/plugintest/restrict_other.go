//go:build !linux

package plugintest

import (
	"errors"
	"os/exec"
)

var errRestrict = errors.New("a plugin can't be restricted on this system")

func restrictionSupported(restriction) error { return errRestrict }

func startRestricted(*exec.Cmd, *restriction) error { return errRestrict }

func watchOpens([]string) (func() []string, error) {
	return nil, errors.New("files can't be watched on this system")
}
