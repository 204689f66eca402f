//go:build !family

package main

import (
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

func main() {
	stage, _ := syscall.Getenv(control.StageEnv)
	switch stage {
	case control.StageWatch:
		watch()
	case control.StageApply:
		apply()
	case control.StageKeep:
		keep()
	case control.StagePlugin:
		cage()
	case control.StageHide:
		hide()
	}
	byHand()
}

// byHand answers a person who runs the program.
func byHand() {
	line := readAll("/proc/self/cmdline")
	for i, n := 0, len("--version"); i+n <= len(line); i++ {
		if string(line[i:i+n]) == "--version" {
			syscall.Write(1, []byte("gantry-launch "+version+"\n"))
			syscall.Exit(0)
		}
	}
	syscall.Write(2, []byte("gantry-launch is started by gantry, once for each process; it is of no use by hand.\n"+
		"Run \"gantry help\" to see what gantry can do.\n"))
	syscall.Exit(1)
}
