package run

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
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
func (a *app) forkAndGoOn(cmd *cobra.Command, f execFlags, at console.ForkFlags, which string, all bool, prompt string) error {
	cwd, err := a.WorkDir(f.dir)
	if err != nil {
		return unfit(err)
	}
	if at.Name, err = console.CheckName(at.Name); err != nil {
		return err
	}
	var fork event.ThreadID
	make := func(ctx context.Context, s *store.Store) error {
		if which == "" {
			newest, err := console.FindThread(ctx, s, "", cwd, all)
			if err != nil {
				return err
			}
			which = string(newest)
		}
		fork, err = a.Fork(ctx, s, which, at)
		return err
	}
	if prompt == "" {
		if f.ephemeral {
			return console.UsageError{Text: "a fork with --ephemeral needs a TASK", Next: "add one, or remove --ephemeral"}
		}
		if err := a.WithStore(cmd, make); err != nil {
			return err
		}
		if f.json {
			a.view(f, nil).Started(fork)
			return nil
		}
		fmt.Fprintln(a.Stdout, fork)
		return nil
	}
	f.switchTo, f.moves = f.model, f.dir != ""
	return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *host.Host, _ string) (*thread.Thread, error) {
		if f.ephemeral {
			copied, err := a.copyThread(ctx, h.Store(), which, cwd, all)
			if err != nil {
				return nil, err
			}
			// The copy belongs to this run alone, so the process that runs the thread is not involved.
			if fork, err = branch.Fork(ctx, h.Store(), event.ThreadID(copied), at.At, at.Name); err != nil {
				return nil, err
			}
		} else if err := make(ctx, h.Store()); err != nil {
			return nil, err
		}
		return h.ResumeThread(ctx, fork)
	})
}
