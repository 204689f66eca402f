package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) compactCommand() *cobra.Command {
	var f execFlags
	var last, all bool
	cmd := &cobra.Command{
		Use:   "compact [flags] [THREAD]",
		Short: "Replace a thread's history by a summary",
		Long: "compact has the thread's model summarize the conversation. The summary replaces everything except your own messages, to\n" +
			"make room for the next task. gantry does this automatically when a thread has used up its share of the model's context\n" +
			"window. THREAD is an ID, a prefix of one, or a name; --last selects this folder's newest thread. If another process runs\n" +
			"the thread, its turn is stopped first; no message is lost.",
		Args: console.Takes(0, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			which := ""
			switch {
			case last && len(args) > 0:
				return console.UsageError{Text: fmt.Sprintf("unexpected argument %q: --last takes no THREAD", args[0]), Next: "remove one of them"}
			case !last && len(args) == 0, !last && args[0] == "":
				return console.UsageError{Text: "no thread specified", Next: "specify one of those that `gantry threads list` shows, or use --last"}
			case !last:
				which = args[0]
			}
			return a.compact(cmd.Context(), f, which, all)
		},
	}
	f.registerOutput(cmd)
	cmd.Flags().BoolVar(&last, "last", false, "select this folder's newest thread")
	cmd.Flags().BoolVar(&all, "all", false, "with --last: consider threads of all folders")
	return cmd
}

// compact compacts the thread that which names, or the newest one.
func (a *app) compact(ctx context.Context, f execFlags, which string, all bool) (err error) {
	cwd, err := a.WorkDir("")
	if err != nil {
		return err
	}
	h, err := a.OpenHub(ctx, console.HubOptions{Dir: cwd, OneTurn: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	t, err := a.resume(ctx, h, hub.Workspace{Dir: cwd}, which, all, "will compact it")
	if err != nil {
		return err
	}
	asks, err := a.attend(ctx, t, f)
	if err != nil {
		return err
	}
	ended, err := a.runTurn(ctx, t, output{view: a.view(f, asks), asks: asks}, func(ctx context.Context, t *hub.Thread) (begun, error) {
		accepted, err := t.Compact(ctx)
		return begun{turn: accepted.Turn}, err
	})
	if err == nil && ended.Status != event.TurnCompleted {
		err = console.ErrTurn
	}
	return err
}
