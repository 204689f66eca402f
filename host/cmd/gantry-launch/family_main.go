//go:build darwin || (linux && family)

package main

import (
	"os"
	"slices"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// This is gantry-launch for systems on which it can't become the parent of orphans, see family.go. The tag "family" builds it for Linux, so
// that it can be tested there.

func main() {
	stage, _ := syscall.Getenv(control.StageEnv)
	switch stage {
	case control.StageWatch:
		watch()
	case control.StageApply:
		apply()
	}
	if slices.Contains(os.Args, "--version") {
		os.Stdout.WriteString("gantry-launch " + version + "\n")
		os.Exit(0)
	}
	os.Stderr.WriteString("gantry-launch is started by gantry and has no use on its own.\n" +
		"Run \"gantry help\" to see what gantry can do.\n")
	os.Exit(1)
}
