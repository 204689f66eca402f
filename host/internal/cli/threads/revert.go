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
	"github.com/gantry-agent/gantry/host/internal/hub"
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
			return a.revert(cmd, args[0], func(ctx context.Context, h *hub.Hub, id event.ThreadID) (hub.Reverted, error) {
				return h.Revert(ctx, id, before)
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
			return a.revert(cmd, args[0], func(ctx context.Context, h *hub.Hub, id event.ThreadID) (hub.Reverted, error) {
				return h.Rollback(ctx, id, n)
			})
		},
	}
}

// revert reverts turns and prints how many.
func (a *app) revert(cmd *cobra.Command, which string, revert func(context.Context, *hub.Hub, event.ThreadID) (hub.Reverted, error)) error {
	return a.onThread(cmd, which, func(ctx context.Context, h *hub.Hub, id event.ThreadID) error {
		done, err := revert(ctx, h, id)
		if err == nil {
			fmt.Fprintf(a.Stderr, "rolled back %s\n", render.Plural(done.Turns, "turn"))
		}
		return err
	})
}

// onThread calls f with a thread that the user names.
func (a *app) onThread(cmd *cobra.Command, which string, f func(context.Context, *hub.Hub, event.ThreadID) error) error {
	return a.WithHub(cmd, func(ctx context.Context, h *hub.Hub) error {
		id, err := console.NamedThread(ctx, h, which)
		if err != nil {
			return err
		}
		return f(ctx, h, id)
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
			return a.WithHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				for _, which := range args {
					if err := a.archive(ctx, h, which, archive); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) archive(ctx context.Context, h *hub.Hub, which string, archive bool) error {
	id, err := console.NamedThread(ctx, h, which)
	if err != nil {
		return err
	}
	change, state, already := h.Archive, "archived", hub.IsArchived
	if !archive {
		change, state, already = h.Unarchive, "unarchived", hub.NotFound
	}
	if err = change(ctx, id); err != nil && hub.ErrorOf(err).Code == already {
		if info, ierr := h.Info(ctx, string(id)); ierr == nil && info.Archived.IsZero() != archive {
			state, err = state+" already", nil
		}
	}
	if err != nil {
		return err
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
			return a.onThread(cmd, args[0], func(ctx context.Context, h *hub.Hub, id event.ThreadID) error { return h.Rename(ctx, id, name) })
		},
	}
}

func (a *app) threadsStop() *cobra.Command {
	var plugin string
	cmd := &cobra.Command{
		Use: "stop THREAD SESSION", Short: "Stop a session of a running thread", Args: console.Takes(2, 2, "THREAD", "SESSION"),
		Long: "stop ends a session: what a tool left running when its call returned, such as a command that continues in the\n" +
			"background. SESSION is the ID that gantry shows when the session opens. The thread continues.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onThread(cmd, args[0], func(ctx context.Context, h *hub.Hub, id event.ThreadID) error {
				t, err := h.Reach(ctx, id)
				if err != nil && hub.ErrorOf(err).Code == hub.Closed {
					return fmt.Errorf("thread %s is not running, so none of its sessions is", id)
				}
				if err != nil {
					return err
				}
				return t.StopSession(ctx, plugin, args[1])
			})
		},
	}
	cmd.Flags().StringVar(&plugin, "plugin", "", "the `PLUGIN` that holds the session, if several have one of this ID")
	return cmd
}

func (a *app) threadsTurns() *cobra.Command {
	var asJSON, reverted bool
	cmd := &cobra.Command{
		Use: "turns THREAD", Short: "List the turns of a thread", Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				info, err := h.Info(ctx, args[0])
				if err != nil {
					return err
				}
				stored, err := h.Turns(ctx, info.ID)
				if err != nil {
					return err
				}
				turns := []turnRow{}
				for _, t := range turnRowsOf(stored) {
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
