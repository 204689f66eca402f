package run

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

// resumeCommand is `gantry resume`, and `gantry exec resume` for compatibility with codex.
func (a *app) resumeCommand() *cobra.Command {
	var f execFlags
	var last, all bool
	cmd := &cobra.Command{
		Use:   "resume [flags] [THREAD] [TASK | -]",
		Short: "Continue a stored thread",
		Long: "resume rebuilds a thread from its log and gives it the task. THREAD is an ID, a prefix of one, or a name; --last selects\n" +
			"this folder's newest thread. The model is told that calls that were running when the host stopped have an unknown\n" +
			"outcome; they are not run again. --model and --cd switch the thread to another model or folder permanently. With\n" +
			"--ephemeral, nothing that happens from now on is stored.",
		Args: console.Takes(0, 2, "THREAD", console.TaskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.understand(&f); err != nil {
				return err
			}
			which := ""
			if !last {
				if len(args) == 0 {
					return console.UsageError{Text: "no thread specified", Next: "specify one of those that `gantry threads list` shows, or use --last"}
				}
				if which, args = args[0], args[1:]; which == "" {
					return console.UsageError{Text: "empty thread name", Next: "specify one, or use --last for this folder's newest thread"}
				}
			}
			if len(args) > 1 {
				return console.UsageError{Text: fmt.Sprintf("unexpected argument %q: --last takes only a TASK", args[1]), Next: "put a task of several words in quotes"}
			}
			prompt, err := a.readPrompt(args)
			if err != nil {
				return err
			}
			f.switchTo, f.moves = f.model, f.dir != ""
			return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *hub.Hub, w hub.Workspace) (*hub.Thread, error) {
				return a.resume(ctx, h, w, which, all, "receives the task")
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&last, "last", false, "select this folder's newest thread")
	cmd.Flags().BoolVar(&all, "all", false, "with --last: consider threads of all folders")
	return cmd
}

// resume returns the thread that which names, or the newest one. If another process runs it, the user is told what that process does.
func (a *app) resume(ctx context.Context, h *hub.Hub, w hub.Workspace, which string, all bool, does string) (*hub.Thread, error) {
	id, err := console.ThreadIn(ctx, h, which, w.Dir, all)
	if err != nil {
		return nil, err
	}
	t, err := h.Resume(ctx, id, hub.ResumeParams{Workspace: w})
	if err == nil && t.Remote() {
		fmt.Fprintf(a.Stderr, "another process runs this thread and %s\n", does)
	}
	return t, err
}
