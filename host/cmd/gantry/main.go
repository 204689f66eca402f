// Command gantry runs AI agents whose tools and model providers are plugins.
//
// It owns: the process's arguments, streams and exit status. It must not know: what a command does.
//
// Start with host/internal/cli.
package main

import (
	"os"

	"github.com/gantry-agent/gantry/host/internal/cli"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() { os.Exit(cli.Main(version, os.Args[1:])) }
