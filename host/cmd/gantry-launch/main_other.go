//go:build !linux && !darwin

package main

import "os"

func main() {
	os.Stderr.WriteString("gantry-launch " + version + ": processes are launched on Linux and macOS only\n")
	os.Exit(1)
}
