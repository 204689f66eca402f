package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
)

func (a *app) pluginRun() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "run NAME COMMAND [INPUT]", Short: "Run a command that a plugin offers", Args: takes(2, 3, "NAME", "COMMAND", "INPUT"),
		Long: "run starts the plugin, runs one of the commands that `gantry plugin inspect NAME` lists, and prints its output, JSON.\n" +
			"INPUT is a JSON object. gantry asks before it runs a command with side effects. Without a terminal such a command is\n" +
			"refused, unless --yes is given.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			input := json.RawMessage("{}")
			if len(args) > 2 {
				input = json.RawMessage(args[2])
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(input, &object); err != nil || object == nil {
				return usageError{fmt.Sprintf("INPUT is not a JSON object: %q", render.OneLine(string(input), 80)), `write it as in '{"name": "value"}'`}
			}
			return a.runPlugin(ctx, args[0], host.CommandRun{Name: args[1], Input: input, Asker: commandAsker{a}, Confirmed: yes})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the side effects of the command")
	return cmd
}

func (a *app) runPlugin(ctx context.Context, label string, r host.CommandRun) (err error) {
	h, b, err := a.blockHost(ctx, blockNamed(label))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	out, err := h.Command(ctx, label, r)
	switch {
	case errors.Is(err, host.ErrNoCommand):
		return hint.With(fmt.Errorf("%s: plugin %q has no command %q", b.Where(), label, r.Name), fmt.Sprintf("see `gantry plugin inspect %s`", label))
	case errors.Is(err, host.ErrNotConfirmed):
		return hint.With(fmt.Errorf("%s: %w", b.Where(), err), "confirm it on a terminal, or with --yes")
	case err != nil:
		return err
	}
	var v any
	if json.Unmarshal(out, &v) != nil {
		return fmt.Errorf("%s: the command %q of plugin %q printed no JSON: %q", b.Where(), r.Name, label, render.OneLine(string(out), 80))
	}
	return a.printJSON(v)
}

// blockHost is a host with the one block that find chooses.
func (a *app) blockHost(ctx context.Context, find func(*config.Config) (*config.PluginBlock, error)) (*host.Host, *config.PluginBlock, error) {
	home, err := a.home()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := a.loadConfig(ctx, home, a.dir)
	if err != nil {
		return nil, nil, err
	}
	b, err := find(cfg)
	if err != nil {
		return nil, nil, err
	}
	only := *cfg
	only.Providers, only.Plugins = nil, nil
	if b.Kind == contract.KindProvider {
		only.Providers = []*config.PluginBlock{b}
	} else {
		only.Plugins = []*config.PluginBlock{b}
	}
	h, err := a.hostOf(ctx, home, &only, hostOptions{dir: a.dir, ephemeral: true})
	return h, b, err
}

// providerNamed finds a provider block.
func providerNamed(label string) func(*config.Config) (*config.PluginBlock, error) {
	return func(cfg *config.Config) (*config.PluginBlock, error) {
		if b, ok := cfg.Provider(label); ok {
			return b, nil
		}
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{unknownProvider(cfg, label)}}
	}
}

// blockNamed finds a plugin or provider block that is switched on.
func blockNamed(label string) func(*config.Config) (*config.PluginBlock, error) {
	return func(cfg *config.Config) (*config.PluginBlock, error) {
		for _, b := range cfg.Blocks() {
			if b.Label != label {
				continue
			}
			if !b.Enabled {
				return nil, hint.With(fmt.Errorf("%s: plugin %q is switched off", b.Where(), label), "set enabled = true in its block")
			}
			return b, nil
		}
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{cfg.UnknownPlugin(label)}}
	}
}
