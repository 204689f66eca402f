// Package safety implements the commands that show what is allowed and record what the user trusts: trust, hooks, sandbox and
// policy.
//
// It owns how users are shown what their trust covers, and how the sandbox and the rules are explained. It does not know how they
// are enforced.
//
// Start with trust.go.
package safety

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
		a.trustCommand(), a.hooksCommand(), a.sandboxCommand(), a.policyCommand(),
	}
}
