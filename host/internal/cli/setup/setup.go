// Package setup holds the commands that prepare gantry and examine it: config, init, login, logout, secret, models and
// doctor.
//
// It owns: the flags of these commands and what they print. It must not know: how a thread runs.
//
// Start with config.go.
package setup

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
		a.configCommand(), a.initCommand(), a.loginCommand(), a.logoutCommand(), a.secretCommand(), a.doctorCommand(), a.modelsCommand(),
	}
}
