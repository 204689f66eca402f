package run

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
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
			var resumed event.ThreadID
			err = a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *host.Host, cwd string) (*thread.Thread, error) {
				if f.ephemeral {
					if which, err = a.copyThread(ctx, h.Store(), which, cwd, all); err != nil {
						return nil, err
					}
				}
				id, err := console.FindThread(ctx, h.Store(), which, cwd, all)
				if err != nil {
					return nil, err
				}
				resumed = id
				return h.ResumeThread(ctx, id)
			})
			if f.ephemeral || !a.RunsHere(resumed, err) {
				return err
			}
			return a.handToOwner(cmd.Context(), resumed, f, prompt)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&last, "last", false, "select this folder's newest thread")
	cmd.Flags().BoolVar(&all, "all", false, "with --last: consider threads of all folders")
	return cmd
}

// copyThread copies a stored thread to the ephemeral store of this run.
func (a *app) copyThread(ctx context.Context, to *store.Store, which, cwd string, all bool) (id string, err error) {
	from, err := a.LookIntoStore(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close(ctx)) }()
	found, err := console.FindThread(ctx, from, which, cwd, all)
	if err != nil {
		return "", err
	}
	events, written := io.Pipe()
	go func() { // owned by the caller: exits with the import, which closes its end of the pipe
		written.CloseWithError(from.Export(ctx, found, written))
	}()
	_, err = to.Import(ctx, events)
	events.Close()
	return string(found), err
}

// handToOwner submits a task to the process that runs the thread, and shows its turn.
func (a *app) handToOwner(ctx context.Context, id event.ThreadID, f execFlags, prompt string) error {
	sub, err := f.submission(prompt)
	if err != nil {
		return err
	}
	if len(f.images) > 0 {
		return hint.With(fmt.Errorf("another process runs thread %s, and can't receive images", id), "end that process, or remove --image")
	}
	home, err := a.Home()
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stderr, "another process runs this thread and receives the task")
	f.ownTurn = true
	settings := threadsocket.Settings{Model: f.switchTo, Effort: sub.Reasoning}
	if f.moves {
		if settings.Cwd, err = a.WorkDir(f.dir); err != nil {
			return err
		}
	}
	return a.attachTo(ctx, home, id, f, handOver(prompt, settings, sub.OutputSchema))
}
