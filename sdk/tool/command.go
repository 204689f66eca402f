package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
)

// Command is a plugin command that user interfaces offer, such as login or status. Create it with [NewCommand].
type Command struct {
	spec contract.CommandSpec
	run  func(ctx context.Context, c *CommandCall, input json.RawMessage) (json.RawMessage, error)
	err  error
}

// CommandOption is an option of [NewCommand].
type CommandOption func(*Command)

// SideEffects declares that the command changes something outside the plugin's process: a service, files, or data that the host
// stores for it. The host asks the user before it runs such a command. A command that shows what it is about to change and asks for
// itself, unless [CommandCall.Confirmed], does not need it.
func SideEffects() CommandOption { return func(c *Command) { c.spec.SideEffects = true } }

// CallsTool declares that the command goes on with a call of a tool; see [CommandCall.CallTool].
func CallsTool() CommandOption { return func(c *Command) { c.spec.CallsTool = true } }

// NewCommand declares a command with input of type In, whose output is marshalled to JSON. On the command line, a string with the tag
// `file:"true"` is the content of a file that the user names. Errors are shown to the user; a
// *[contract.Diagnostic] keeps its place.
func NewCommand[In any](name, description string, run func(ctx context.Context, c *CommandCall, in In) (any, error), opts ...CommandOption) Command {
	c := Command{spec: contract.CommandSpec{Name: name, Description: description}}
	var fields []string
	c.spec.InputSchema, fields, c.err = schemaOf[In]()
	for _, o := range opts {
		o(&c)
	}
	c.run = func(ctx context.Context, call *CommandCall, input json.RawMessage) (json.RawMessage, error) {
		in, err := decodeInput[In](contract.Input{Arguments: input}, fields)
		if err != nil {
			return nil, err
		}
		out, err := run(ctx, call, in)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(out)
		if err != nil {
			return nil, fmt.Errorf("marshal output of command %q: %w", name, err)
		}
		return b, nil
	}
	return c
}

// CommandCall is one execution of a command.
type CommandCall struct {
	env       *Env
	token     string
	confirmed bool
	mu        sync.Mutex
	edits     []contract.ConfigEdit
	next      *contract.NextCommand
}

// Confirmed reports whether the user has agreed beforehand to what the command does, with a flag for example. A command that changes
// something need not ask then.
func (c *CommandCall) Confirmed() bool { return c.confirmed }

// Set proposes a change of the plugin's own settings: the host shows it to the user when the command has returned without an error, and
// makes it if they agree and the configuration is valid with it. path is the name of an argument or block, after the names of the
// blocks around it, each followed by its label if it has one. value is marshalled to JSON; a block is an object, which replaces what
// the block has. An object made by [FromEnv] or [FromSecret] is a reference.
func (c *CommandCall) Set(value any, path ...string) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("set %q: marshal the value: %w", path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.edits = append(c.edits, contract.ConfigEdit{Path: path, Value: b})
	return nil
}

// Remove is like Set; it proposes to remove an argument or a block.
func (c *CommandCall) Remove(path ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.edits = append(c.edits, contract.ConfigEdit{Path: path})
}

// Continue asks the host to run another command of the plugin next, with the proposed changes in effect. It does not run if this command
// fails, or if the changes are not made. input is marshalled to a JSON object.
func (c *CommandCall) Continue(name string, input any) error {
	b, err := json.Marshal(input)
	if err != nil {
		return fmt.Errorf("continue with %q: marshal the input: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = &contract.NextCommand{Name: name, Input: b}
	return nil
}

// CallTool asks the host to call a tool of the plugin when the command has returned without an error: in a thread, through its policy, approvals and
// sandbox, as if a model had called it. The user sees the result of the call in place of the command's output. A command that calls a tool
// proposes no changes. input is marshalled to a JSON object. The command must be declared with [CallsTool].
func (c *CommandCall) CallTool(name string, input any) error {
	if err := c.Continue(name, input); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next.Tool = true
	return nil
}

// FromEnv is the value env("NAME") in a proposal of [CommandCall.Set]: an environment variable of gantry's.
func FromEnv(name string) map[string]string { return map[string]string{"$env": name} }

// FromSecret is the value secret("NAME"): a secret that the user has stored.
func FromSecret(name string) map[string]string { return map[string]string{"$secret": name} }

// Env returns the plugin's environment.
func (c *CommandCall) Env() *Env { return c.env }

// Command prepares a process that the host starts for the command. It ends with ctx and with the command, and can't be a session. In
// general it only reads, without the network. That of a command with [SideEffects] has the network and may write, but only in its
// working folder, which is the plugin's own and visible to other processes. Leave Cmd.Dir empty to use that folder. Needs the
// capability "spawn".
func (c *CommandCall) Command(ctx context.Context, argv ...string) *process.Cmd {
	return c.env.command(ctx, c.token, argv)
}
