package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) attachCommand() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "attach [flags] THREAD [TASK | -]",
		Short: "Watch a thread that another process runs, or submit a task to it",
		Long: "attach connects to the process that runs a thread and shows its events, from the beginning of the thread. With a TASK,\n" +
			"it submits the task, or steers the running turn, waits until the turn ends, and exits. Without one, on a terminal, each\n" +
			"line that you type is a task. A line that starts with an exclamation mark, as in !git status, is your own command: it\n" +
			"runs in your shell without approval, concurrently with the turn, and the model reads its output. Ctrl-C disconnects; the\n" +
			"thread keeps running.",
		Args: console.Takes(1, 2, "THREAD", console.TaskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			task := ""
			if len(args) > 1 {
				var err error
				if task, err = a.taskOf(args[1]); err != nil {
					return err
				}
			}
			return a.attach(ctx, f, args[0], task)
		},
	}
	f.registerOutput(cmd)
	return cmd
}

// taskOf returns the task given by an argument. Piped input is only read for "-": a watching command often has no useful standard
// input.
func (a *app) taskOf(arg string) (string, error) {
	if arg == "-" {
		return readPrompt([]string{arg}, a.Stdin)
	}
	return arg, checkTask(arg)
}

// attach shows a thread that another process runs: until the task has ended, or until the thread ends if there is no task.
func (a *app) attach(ctx context.Context, f execFlags, which, task string) (err error) {
	h, err := a.OpenHub(ctx, console.HubOptions{OnlyLooks: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	id, err := console.NamedThread(ctx, h, which)
	if err != nil {
		return err
	}
	t, err := h.Reach(ctx, id)
	if err != nil {
		if hub.ErrorOf(err).Code == hub.Closed {
			err = hint.With(fmt.Errorf("no process runs thread %s", id), resumeWith(id))
		}
		return err
	}
	if task == "" {
		return a.watchAndType(ctx, t, f)
	}
	ended, err := a.runTurn(ctx, t, output{view: a.view(f, nil), all: true}, typed(task))
	if err == nil && ended.Status != event.TurnCompleted {
		err = console.ErrTurn
	}
	return err
}
