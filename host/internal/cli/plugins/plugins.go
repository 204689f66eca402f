// Package plugins holds the command plugin: list, inspect, lock, verify, add, remove, reload, run and new.
//
// It owns: the flags of these commands and what they print. It must not know: how a program is found, compared and locked,
// which is the package install.
//
// Start with plugin.go.
package plugins

import (
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

// app is one run of the command line.
type app struct{ *console.Env }

// Commands returns the commands of this package.
func Commands(env *console.Env) []*cobra.Command {
	a := &app{env}
	return []*cobra.Command{
		a.pluginCommand(),
	}
}
