package threads

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) threadsFork() *cobra.Command {
	var at console.ForkFlags
	cmd := &cobra.Command{
		Use: "fork THREAD", Short: "Copy a thread and print the ID of the copy", Args: console.Takes(1, 1, "THREAD"),
		Long: "fork creates a copy of THREAD up to its end or to a turn, and doesn't change THREAD. `gantry fork` does the same and\n" +
			"continues the fork. " + console.TurnHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if at.Name, err = console.CheckName(at.Name); err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, h *hub.Hub, id event.ThreadID) error {
				fork, err := h.Fork(ctx, id, at.Fork)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, fork)
				return nil
			})
		},
	}
	at.Register(cmd)
	return cmd
}
