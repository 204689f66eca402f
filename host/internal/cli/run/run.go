// Package run implements the commands that start or continue a thread and show it until its turn has ended: exec, resume, fork,
// compact, review, attach, model, call and session.
//
// It owns the flags of a task, the sources of the task, how a user answers questions, and the handling of signals. It does not
// know how events are rendered or how a thread runs.
//
// Start with exec.go.
package run

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

// app is one invocation of the command line.
type app struct{ *console.Env }

// MCPCall returns the command that calls a tool of an MCP server.
func MCPCall(env *console.Env) *cobra.Command { return caller{&app{env}}.mcpCallCommand() }

// MakeCall makes a call of a tool for a plugin, whose arguments are JSON, and prints its result.
func MakeCall(ctx context.Context, env *console.Env, c Call) error {
	if !json.Valid([]byte(c.Input)) { // standard input is the user's to give
		return fmt.Errorf("the arguments that plugin %q has for its tool %q are not JSON: %.80q", c.Plugin, c.Tool, c.Input)
	}
	return caller{&app{env}}.call(ctx, c)
}

// Commands returns the commands of this package.
func Commands(env *console.Env) []*cobra.Command {
	a := &app{env}
	return []*cobra.Command{
		a.execCommand(), a.resumeCommand(), a.forkCommand(), a.compactCommand(), a.reviewCommand(), a.attachCommand(), a.modelCommand(), caller{a}.callCommand(), caller{a}.sessionCommand(),
	}
}
