package threads

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/spf13/cobra"
)

const revertHelp = "The model no longer sees them, and the thread's usage is restored to what it was before them. They stay in the log:\n" +
	"`gantry threads show --reverted` shows them, and `gantry fork --through TURN` continues from one. Files are not changed."

func (a *app) threadsRevert() *cobra.Command {
	var before string
	cmd := &cobra.Command{
		Use: "revert THREAD --before TURN", Short: "Remove a turn and all later turns from the conversation", Args: console.Takes(1, 1, "THREAD"),
		Long: "revert removes TURN and all later turns from the conversation, which continues from the point before them. " + console.TurnHelp + "\n" + revertHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if before == "" {
				return console.UsageError{Text: "no turn specified", Next: "specify the first turn to remove with --before"}
			}
			return a.revert(cmd, args[0], func(ctx context.Context, s *store.Store, id event.ThreadID) (thread.Cut, error) {
				return branch.Before(ctx, s, id, before)
			}, func(ctx context.Context, c *threadsocket.Client) (threadsocket.RevertResult, error) {
				return c.Revert(ctx, threadsocket.RevertParams{BeforeTurn: before})
			})
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "the first `TURN` to remove")
	return cmd
}

func (a *app) threadsRollback() *cobra.Command {
	return &cobra.Command{
		Use: "rollback THREAD [N]", Short: "Remove the last turns from the conversation", Args: console.Takes(1, 2, "THREAD", "N"),
		Long: "rollback removes the last N turns with a message of yours (default 1), and everything after them, from the conversation. If\n" +
			"there are fewer than N, it removes all. " + revertHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			n := 1
			if len(args) > 1 {
				var err error
				if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
					return console.UsageError{Text: fmt.Sprintf("invalid number of turns %q", args[1]), Next: "specify a number, 1 or greater"}
				}
			}
			return a.revert(cmd, args[0], func(ctx context.Context, s *store.Store, id event.ThreadID) (thread.Cut, error) {
				return branch.Last(ctx, s, id, n)
			}, func(ctx context.Context, c *threadsocket.Client) (threadsocket.RevertResult, error) {
				return c.Rollback(ctx, threadsocket.RollbackParams{Turns: n})
			})
		},
	}
}

// revert reverts turns and prints how many.
func (a *app) revert(cmd *cobra.Command, which string, plan func(context.Context, *store.Store, event.ThreadID) (thread.Cut, error),
	live func(context.Context, *threadsocket.Client) (threadsocket.RevertResult, error),
) error {
	return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
		turns := 0
		err := a.OnThread(ctx, s, which, func(id event.ThreadID) error {
			done, err := branch.Revert(ctx, s, id, func(ctx context.Context) (thread.Cut, error) { return plan(ctx, s, id) })
			turns = done.Turns
			return err
		}, func(c *threadsocket.Client) error {
			r, err := live(ctx, c)
			turns = r.Turns
			return err
		})
		if err == nil {
			fmt.Fprintf(a.Stderr, "rolled back %s\n", render.Plural(turns, "turn"))
		}
		return err
	})
}

func (a *app) threadsArchive(archive bool) *cobra.Command {
	word, short := "archive", "Archive threads"
	long := "archive hides threads from lists. They keep all their content and can be read, but can't be continued until they are\n" +
		"unarchived."
	if !archive {
		word, short = "unarchive", "Unarchive threads"
		long = "unarchive adds archived threads to lists again, unchanged."
	}
	return &cobra.Command{
		Use: word + " THREAD...", Short: short, Long: long, Args: console.Takes(1, -1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
				for _, which := range args {
					if err := a.archive(ctx, s, which, archive); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) archive(ctx context.Context, s *store.Store, which string, archive bool) error {
	var is *store.ThreadInfo
	err := a.OnThread(ctx, s, which, func(id event.ThreadID) error {
		info, err := s.Thread(ctx, string(id))
		if is = &info; err != nil || info.Archived.IsZero() != archive {
			return err
		}
		return branch.AppendEvent(ctx, s, id, event.ThreadArchived{Archived: archive})
	}, func(c *threadsocket.Client) error { return c.Archive(ctx, archive) })
	if err != nil {
		return err
	}
	state := "archived"
	if !archive {
		state = "unarchived"
	}
	if is != nil && is.Archived.IsZero() != archive {
		state += " already"
	}
	fmt.Fprintln(a.Stderr, state, which)
	return nil
}

func (a *app) threadsName() *cobra.Command {
	return &cobra.Command{
		Use: "name THREAD NAME", Short: "Name a thread", Args: console.Takes(2, 2, "THREAD", "NAME"),
		Long: "name gives a thread a name that commands accept instead of its ID. Lists show the beginning of the first task of threads\n" +
			"without a name.",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := branch.Name(args[1])
			if err != nil {
				return console.Usage("%w", err)
			}
			return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
				return a.OnThread(ctx, s, args[0], func(id event.ThreadID) error {
					return branch.AppendEvent(ctx, s, id, event.ThreadNamed{Name: name})
				}, func(c *threadsocket.Client) error { return c.Name(ctx, name) })
			})
		},
	}
}

func (a *app) threadsStop() *cobra.Command {
	var p threadsocket.StopParams
	cmd := &cobra.Command{
		Use: "stop THREAD SESSION", Short: "Stop a session of a running thread", Args: console.Takes(2, 2, "THREAD", "SESSION"),
		Long: "stop ends a session: what a tool left running when its call returned, such as a command that continues in the\n" +
			"background. SESSION is the ID that gantry shows when the session opens. The thread continues.",
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Session = args[1]
			return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
				return a.OnThread(ctx, s, args[0], func(id event.ThreadID) error {
					return branch.Write(ctx, s, id, func(*branch.Log) error {
						return fmt.Errorf("thread %s is not running, so none of its sessions is", id)
					})
				}, func(c *threadsocket.Client) error { return c.StopSession(ctx, p) })
			})
		},
	}
	cmd.Flags().StringVar(&p.Plugin, "plugin", "", "the `PLUGIN` that holds the session, if several have one of this ID")
	return cmd
}

func (a *app) threadsTurns() *cobra.Command {
	var asJSON, reverted bool
	cmd := &cobra.Command{
		Use: "turns THREAD", Short: "List the turns of a thread", Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoStore(cmd, func(ctx context.Context, s *store.Store) error {
				info, err := s.Thread(ctx, args[0])
				if err != nil {
					return err
				}
				stored, err := s.Turns(ctx, info.ID)
				if err != nil {
					return err
				}
				turns := []threadsocket.TurnInfo{}
				for _, t := range threadsocket.TurnsOf(stored) {
					if reverted || !t.Reverted {
						turns = append(turns, t)
					}
				}
				if asJSON {
					return a.PrintJSON(turns)
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "NO\tTURN\tSTARTED\tSTATUS\tTASK")
				for _, t := range turns {
					number, status := strconv.Itoa(t.Number), t.Status
					if t.Reverted {
						number, status = "-", status+", rolled back"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", number, t.ID, t.Started.Local().Format(time.DateTime), status, render.OneLine(t.Preview, 60))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&reverted, "reverted", false, "include turns that were rolled back")
	return cmd
}
