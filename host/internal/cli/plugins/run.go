package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/spf13/cobra"
)

func (a *app) pluginRun() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "run NAME COMMAND [INPUT]", Short: "Run a command that a plugin offers", Args: console.Takes(2, 3, "NAME", "COMMAND", "INPUT"),
		Long: "run starts the plugin, runs one of the commands that `gantry plugin inspect NAME` lists, and prints its output, JSON.\n" +
			"The process is a new one, which has no sessions of running threads.\n" +
			"INPUT is a JSON object. gantry asks before it runs a command with side effects. Without a terminal such a command is\n" +
			"refused, unless --yes is given.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			input := json.RawMessage("{}")
			if len(args) > 2 {
				input = json.RawMessage(args[2])
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(input, &object); err != nil || object == nil {
				return console.UsageError{Text: fmt.Sprintf("INPUT is not a JSON object: %q", render.OneLine(string(input), 80)), Next: `write it as in '{"name": "value"}'`}
			}
			return a.runPlugin(ctx, args[0], pluginset.CommandRun{Name: args[1], Input: input, Asker: console.CommandAsker{Env: a.Env}, Confirmed: yes})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the side effects of the command")
	return cmd
}

func (a *app) runPlugin(ctx context.Context, label string, r pluginset.CommandRun) (err error) {
	h, b, err := a.BlockHost(ctx, console.BlockNamed(label))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	out, err := h.Plugins().Command(ctx, label, r)
	switch {
	case errors.Is(err, pluginset.ErrNotConfirmed):
		return hint.With(fmt.Errorf("%s: %w", b.Where(), err), "confirm it on a terminal, or with --yes")
	case errors.Is(err, pluginset.ErrNoCommand):
		return fmt.Errorf("%s: %w", b.Where(), err)
	case err != nil:
		return err
	}
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		return err
	}
	return a.PrintJSON(v)
}
