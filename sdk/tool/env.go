package tool

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Env is what a configured plugin knows about itself and its host.
type Env struct {
	Label             string // of the user's block
	DataDir, CacheDir string
	Generation        uint64
	HostVersion       string
	HostLimits        contract.Limits
	HostCapabilities  []string
	Logger            hclog.Logger
	Config            any // the pointer of Plugin.Config
}

// SetTools replaces the tools and what stands behind them.
func (e *Env) SetTools(tools []Tool, sources ...contract.Source) error { return errSkeleton }

// Thread returns a thread that the plugin has heard of.
func (e *Env) Thread(id string) (*Thread, bool) { return nil, false }

// Command is a command of the plugin. Make it with [NewCommand].
type Command struct {
	spec contract.CommandSpec
	run  func(ctx context.Context, c *CommandCall, input json.RawMessage) (json.RawMessage, error)
	err  error
}

// NewCommand declares a command whose input is the struct In and whose output is marshalled to JSON.
func NewCommand[In any](name, description string, run func(ctx context.Context, c *CommandCall, in In) (any, error), opts ...CommandOption) Command {
	return Command{}
}

// CommandOption changes a command.
type CommandOption func(*Command)

// SideEffects: the command changes something outside the plugin.
func SideEffects() CommandOption { return func(c *Command) { c.spec.SideEffects = true } }

// CommandCall is one run of a command.
type CommandCall struct{}

// Env of the plugin.
func (c *CommandCall) Env() *Env { return nil }
