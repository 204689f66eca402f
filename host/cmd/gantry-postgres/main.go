// Command gantry-postgres is gantry that can keep its threads on a PostgreSQL server.
//
// It owns: the process's arguments, streams and exit status, and the choice of the driver. It must not know: what a command
// does.
//
// Start with host/internal/cli.
package main

import (
	"os"

	"github.com/gantry-agent/gantry/host/internal/cli"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres"
)

// version is set by the build.
var version = "0.0.0-dev"

// builtins pins the programs that were built with this one: NAME=SHA256, joined by commas. Set by the build.
var builtins = ""

func main() { os.Exit(cli.Main(version, builtins, os.Args[1:], postgres.Driver{})) }
