package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/spf13/cobra"
)

// forkFlags say where a thread is forked.
type forkFlags struct {
	at   branch.Point
	name string
}

func (f *forkFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.at.Through, "through", "", "end the fork after `TURN`")
	fs.StringVar(&f.at.Before, "before", "", "end the fork before `TURN`")
	fs.StringVar(&f.name, "name", "", "name the fork `NAME`")
	exclusive(cmd, "through", "before")
}

// checkName is a name as it is stored; "" where none was given.
func checkName(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	name, err := branch.Name(name)
	if err != nil {
		return "", usage("%w", err)
	}
	return name, nil
}

// fork makes a stored thread of another, which may run, also one that is not stored itself.
func (a *app) fork(ctx context.Context, s *store.Store, which string, f forkFlags) (fork event.ThreadID, err error) {
	if f.name, err = checkName(f.name); err != nil {
		return "", err
	}
	err = a.onThread(ctx, s, which, func(id event.ThreadID) error {
		fork, err = branch.Fork(ctx, s, id, f.at, f.name)
		return err
	}, func(c *appserver.Client) error {
		r, err := c.Fork(ctx, appserver.ForkParams{LastTurn: f.at.Through, BeforeTurn: f.at.Before, Name: f.name})
		fork = r.Thread
		return err
	})
	return fork, err
}

const turnHelp = "TURN is a turn's number, its ID or a prefix of it; `gantry threads turns THREAD` lists them."

func (a *app) forkCommand() *cobra.Command {
	var f execFlags
	var at forkFlags
	var last, all bool
	cmd := &cobra.Command{
		Use:   "fork [flags] [THREAD] [TASK | -]",
		Short: "Copy a thread and continue the copy",
		Long: "fork creates a copy of another thread up to a point, and gives it the task. It doesn't change the other thread, which may\n" +
			"be running; a turn that is in progress there counts as interrupted in the fork. Without a TASK, it creates the fork and\n" +
			"prints its ID. THREAD is an ID, a prefix of one, or a name; --last selects this folder's newest thread. " + turnHelp + "\n" +
			"Files are not changed.",
		Example: "  gantry fork --last --before 3 \"another way: use a map\"\n  gantry fork 01a1fc45",
		Args:    takes(0, 2, "THREAD", taskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.understand(&f); err != nil {
				return err
			}
			which := ""
			if !last {
				if len(args) == 0 || args[0] == "" {
					return usageError{"no thread is named", "name one, which `gantry threads list` shows, or use --last"}
				}
				which, args = args[0], args[1:]
			}
			if len(args) > 1 {
				return usageError{fmt.Sprintf("%q is an argument too many: with --last there is only a TASK", args[1]), "put a task of several words in quotes"}
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
	at.register(cmd)
	cmd.Flags().BoolVar(&last, "last", false, "select this folder's newest thread")
	cmd.Flags().BoolVar(&all, "all", false, "with --last: consider threads of all folders")
	return cmd
}

// forkAndGoOn forks a thread, named or the newest one, and gives the fork a task if there is one.
func (a *app) forkAndGoOn(cmd *cobra.Command, f execFlags, at forkFlags, which string, all bool, prompt string) error {
	cwd, err := a.workDir(f.dir)
	if err != nil {
		return unfit(err)
	}
	if at.name, err = checkName(at.name); err != nil {
		return err
	}
	var fork event.ThreadID
	make := func(ctx context.Context, s *store.Store) error {
		if which == "" {
			newest, err := findThread(ctx, s, "", cwd, all)
			if err != nil {
				return err
			}
			which = string(newest)
		}
		fork, err = a.fork(ctx, s, which, at)
		return err
	}
	if prompt == "" {
		if f.ephemeral {
			return usageError{"a fork that is not stored needs a TASK", "write one, or leave --ephemeral out"}
		}
		if err := a.withStore(cmd, make); err != nil {
			return err
		}
		if f.json {
			a.view(f, nil).Started(fork)
			return nil
		}
		fmt.Fprintln(a.stdout, fork)
		return nil
	}
	f.switchTo, f.moves = f.model, f.dir != ""
	return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *host.Host, _ string) (*thread.Thread, error) {
		if f.ephemeral {
			copied, err := a.copyThread(ctx, h.Store(), which, cwd, all)
			if err != nil {
				return nil, err
			}
			// The copy is this run's alone: who runs the thread itself is not asked.
			if fork, err = branch.Fork(ctx, h.Store(), event.ThreadID(copied), at.at, at.name); err != nil {
				return nil, err
			}
		} else if err := make(ctx, h.Store()); err != nil {
			return nil, err
		}
		return h.ResumeThread(ctx, fork)
	})
}

func (a *app) threadsFork() *cobra.Command {
	var at forkFlags
	cmd := &cobra.Command{
		Use: "fork THREAD", Short: "Copy a thread and print the ID of the copy", Args: takes(1, 1, "THREAD"),
		Long: "fork creates a copy of THREAD up to its end or to a turn, and doesn't change THREAD. `gantry fork` does the same and\n" +
			"continues the fork. " + turnHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, s *store.Store) error {
				fork, err := a.fork(ctx, s, args[0], at)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.stdout, fork)
				return nil
			})
		},
	}
	at.register(cmd)
	return cmd
}

// onThread changes a thread: in the store where nobody runs it, else by asking who does.
func (a *app) onThread(ctx context.Context, s *store.Store, which string, stored func(event.ThreadID) error, live func(*appserver.Client) error) error {
	info, err := s.Thread(ctx, which)
	id := info.ID
	if err == nil {
		err = stored(id)
		if !a.runsHere(id, err) {
			return err
		}
	} else {
		// It may be one that is not stored. Those are found by their whole id.
		var unparsed error
		if id, unparsed = event.ParseThreadID(which); unparsed != nil {
			return err
		}
	}
	home, hErr := a.home()
	if hErr != nil {
		return hErr
	}
	path, pErr := store.RunSocket(home, id)
	if pErr != nil {
		return pErr
	}
	c, dErr := appserver.Dial(ctx, path)
	if errors.Is(dErr, appserver.ErrGone) {
		return err
	}
	if dErr != nil {
		return dErr
	}
	defer func() { _ = c.Close() }() // what was asked is answered by then
	return live(c)
}
