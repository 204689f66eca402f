// Command gantry-codemode runs one script for a process that links no JavaScript engine.
//
// It owns: nothing but the process. It must not know: how a script is run.
//
// Start with [main].
package main

import (
	"os"

	"github.com/gantry-agent/gantry/sdk/codemode/child"
)

func main() { os.Exit(child.Main(os.Stdin, os.Stdout)) }
