// Package setup implements the commands that prepare and examine gantry: config, init, login, logout, secret, models and doctor.
//
// It owns the flags of these commands and their output. It does not know how a thread runs.
//
// Start with config.go.
package setup

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
		a.configCommand(), a.initCommand(), a.loginCommand(), a.logoutCommand(), a.secretCommand(), a.doctorCommand(), a.modelsCommand(),
	}
}
