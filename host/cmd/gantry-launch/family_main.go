//go:build darwin || (linux && family)

package main

import (
	"os"
	"slices"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// This is gantry-launch for systems that have no way to hand a tree's orphans to it: see family.go. With the tag "family" it is built
// for Linux, so that it is tried where there is no such system.

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
	os.Stderr.WriteString("gantry-launch is started by gantry, once for each process; it is of no use by hand.\n" +
		"Run \"gantry help\" to see what gantry can do.\n")
	os.Exit(1)
}
