package run

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) forkCommand() *cobra.Command {
	var f execFlags
	var at console.ForkFlags
	var last, all bool
	cmd := &cobra.Command{
		Use:   "fork [flags] [THREAD] [TASK | -]",
		Short: "Copy a thread and continue the copy",
		Long: "fork creates a copy of another thread up to a point, and gives it the task. It doesn't change the other thread, which may\n" +
			"be running; a turn that is in progress there counts as interrupted in the fork. Without a TASK, it creates the fork and\n" +
			"prints its ID. THREAD is an ID, a prefix of one, or a name; --last selects this folder's newest thread. " + console.TurnHelp + "\n" +
			"Files are not changed.",
		Example: "  gantry fork --last --before 3 \"another way: use a map\"\n  gantry fork 01a1fc45",
		Args:    console.Takes(0, 2, "THREAD", console.TaskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.understand(&f); err != nil {
				return err
			}
			which := ""
			if !last {
				if len(args) == 0 || args[0] == "" {
					return console.UsageError{Text: "no thread specified", Next: "specify one of those that `gantry threads list` shows, or use --last"}
				}
				which, args = args[0], args[1:]
			}
			if len(args) > 1 {
				return console.UsageError{Text: fmt.Sprintf("unexpected argument %q: --last takes only a TASK", args[1]), Next: "put a task of several words in quotes"}
			}
			prompt := ""
			if len(args) == 1 {
				var err error
				if prompt, err = a.readPrompt(args); err != nil {
					return err
				}
			}
			return a.forkAndGoOn(cmd, f, at, which, all, prompt)
		},
	}
	f.register(cmd)
	at.Register(cmd)
	cmd.Flags().BoolVar(&last, "last", false, "select this folder's newest thread")
	cmd.Flags().BoolVar(&all, "all", false, "with --last: consider threads of all folders")
	return cmd
}

// forkAndGoOn forks a thread, either the named or the most recent one, and runs a task in the fork if there is one.
func (a *app) forkAndGoOn(cmd *cobra.Command, f execFlags, at console.ForkFlags, which string, all bool, prompt string) (err error) {
	cwd, err := a.WorkDir(f.dir)
	if err != nil {
		return unfit(err)
	}
	if at.Name, err = console.CheckName(at.Name); err != nil {
		return err
	}
	if prompt == "" {
		return a.fork(cmd, f, at, which, cwd, all)
	}
	f.switchTo, f.moves = f.model, f.dir != ""
	return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *hub.Hub, w hub.Workspace) (*hub.Thread, error) {
		id, err := console.ThreadIn(ctx, h, which, cwd, all)
		if err != nil {
			return nil, err
		}
		p := hub.ResumeParams{Workspace: w}
		if f.ephemeral {
			p.Fork = &at.Fork
		} else if id, err = h.Fork(ctx, id, at.Fork); err != nil {
			return nil, err
		}
		return h.Resume(ctx, id, p)
	})
}

// fork forks a thread and prints the ID of the fork.
func (a *app) fork(cmd *cobra.Command, f execFlags, at console.ForkFlags, which, cwd string, all bool) error {
	if f.ephemeral {
		return console.UsageError{Text: "a fork with --ephemeral needs a TASK", Next: "add one, or remove --ephemeral"}
	}
	return a.WithHub(cmd, func(ctx context.Context, h *hub.Hub) error {
		id, err := console.ThreadIn(ctx, h, which, cwd, all)
		if err != nil {
			return err
		}
		fork, err := h.Fork(ctx, id, at.Fork)
		if err != nil {
			return err
		}
		if f.json {
			a.view(f, nil).Started(fork)
			return nil
		}
		fmt.Fprintln(a.Stdout, fork)
		return nil
	})
}
