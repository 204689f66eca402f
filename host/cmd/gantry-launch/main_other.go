//go:build !linux

package main

import "os"

func main() {
	os.Stderr.WriteString("gantry-launch " + version + ": processes are launched on Linux only for now\n")
	os.Exit(1)
}
