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
		becomePlugin()
	case control.StageHide:
		hide()
	}
	printUsage()
}

// printUsage prints the version, or that the program is not for users.
func printUsage() {
	line := readAll("/proc/self/cmdline")
	for i, n := 0, len("--version"); i+n <= len(line); i++ {
		if string(line[i:i+n]) == "--version" {
			syscall.Write(1, []byte("gantry-launch "+version+"\n"))
			syscall.Exit(0)
		}
	}
	syscall.Write(2, []byte("gantry-launch is started by gantry and has no use on its own.\n"+
		"Run \"gantry help\" to see what gantry can do.\n"))
	syscall.Exit(1)
}
