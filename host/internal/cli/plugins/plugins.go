// Package plugins implements the command plugin: list, inspect, lock, verify, add, remove, reload, run and new.
//
// It owns the flags of these commands and their output. It does not know how a program is found, compared and locked; that is
// package install.
//
// Start with plugin.go.
package plugins

import (
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

// app is one invocation of the command line.
type app struct{ *console.Env }

// Commands returns the commands of this package.
func Commands(env *console.Env) []*cobra.Command {
	a := &app{env}
	return []*cobra.Command{
		a.pluginCommand(),
	}
}
