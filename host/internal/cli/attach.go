package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

func (a *app) attachCommand() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "attach [flags] THREAD [TASK | -]",
		Short: "Watch a thread that another process runs, or give it a task",
		Long: "attach connects to the process that runs a thread and shows what happens there, from the beginning of the thread.\n" +
			"With a TASK it hands the task over, waits for its turn to end, and leaves; a turn that runs is steered by it.\n" +
			"Ctrl-C leaves; the thread goes on.",
		Args: takes(1, 2, "THREAD", taskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			task := ""
			if len(args) > 1 {
				var err error
				if task, err = a.taskOf(args[1]); err != nil {
					return err
				}
			}
			home, err := a.home()
			if err != nil {
				return err
			}
			var id event.ThreadID
			err = a.lookingIntoStore(cmd, func(ctx context.Context, s *store.Store) error {
				info, err := s.Thread(ctx, args[0])
				id = info.ID
				return err
			})
			if err != nil {
				return err
			}
			return a.attachTo(ctx, home, id, f, handOver(task, appserver.Settings{}, nil))
		},
	}
	f.registerOutput(cmd)
	return cmd
}

// taskOf is the task of an argument. What is piped in counts with - alone: who watches often has no standard input to give.
func (a *app) taskOf(arg string) (string, error) {
	if arg == "-" {
		return readPrompt([]string{arg}, a.stdin)
	}
	return arg, checkTask(arg)
}

// begin starts a turn of a thread in another process.
type begin func(context.Context, *appserver.Client) (appserver.StartResult, error)

// handOver begins a task; nil where there is none. The thread goes on with the settings. schema: of the last message.
func handOver(task string, settings appserver.Settings, schema []byte) begin {
	if task == "" {
		return nil
	}
	return func(ctx context.Context, c *appserver.Client) (appserver.StartResult, error) {
		r, err := c.Start(ctx, appserver.StartParams{Text: task, Settings: settings, OutputSchema: schema})
		if err != nil && settings.Model != "" {
			return r, fmt.Errorf("%w: a change of the model waits for the turn that runs, and its process ended with it; next: run the command again", err)
		}
		return r, err
	}
}

// attachTo shows a thread of another process; with a turn to begin until that has ended.
func (a *app) attachTo(ctx context.Context, home string, id event.ThreadID, f execFlags, turn begin) (err error) {
	path, err := store.RunSocket(home, id)
	if err != nil {
		return err
	}
	c, err := appserver.Dial(ctx, path)
	if errors.Is(err, appserver.ErrGone) {
		return fmt.Errorf("no process runs thread %s; next: go on with it by `gantry resume %s`", id, id)
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the thread goes on; there is nothing to lose here
	var mine event.TurnID
	if turn != nil {
		started, err := turn(ctx, c)
		if err != nil {
			return err
		}
		mine = started.Turn
	}
	// From here on events come, and are read without a pause.
	if _, err := c.Subscribe(ctx, appserver.SubscribeParams{}); err != nil {
		return err
	}
	show := a.view(f, nil)
	show.Started(id)
	for {
		e, err := c.Next(ctx)
		if errors.Is(err, appserver.ErrGone) {
			if mine != "" {
				return fmt.Errorf("%w before the turn had ended; next: go on with it by `gantry resume %s`", err, id)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if f.ownTurn && e.Turn != mine {
			continue
		}
		if err := show.Event(e, false); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
		if b, ok := e.Body.(event.TurnEnded); ok && e.Turn == mine {
			if err := show.Ended(b); err != nil {
				return err
			}
			if b.Status != event.TurnCompleted {
				return errTurn
			}
			return f.writeLast(b.LastMessage)
		}
	}
}
