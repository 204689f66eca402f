// Package safety holds the commands that show what is allowed and record what the user agrees to: trust, hooks, sandbox and
// policy.
//
// It owns: how the user is shown what consent covers, and how the sandbox and the rules are explained. It must not know:
// how they are enforced.
//
// Start with trust.go.
package safety

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
		a.trustCommand(), a.hooksCommand(), a.sandboxCommand(), a.policyCommand(),
	}
}
