package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
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
			home, err := a.Home()
			if err != nil {
				return err
			}
			var id event.ThreadID
			err = a.LookingIntoStore(cmd, func(ctx context.Context, s *store.Store) error {
				info, err := s.Thread(ctx, args[0])
				if err != nil {
					return err
				}
				id = info.ID
				owner, held, err := s.Holder(ctx, id)
				if held && owner.Machine != "" {
					return &store.LockedError{Thread: id, Owner: owner}
				}
				return err
			})
			if err != nil {
				return err
			}
			if task == "" {
				return a.watchAndType(ctx, home, id, f)
			}
			return a.attachTo(ctx, home, id, f, typed(task))
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

// begun is what a client has started in a thread of another process.
type begun struct {
	turn event.TurnID
	call event.CallID // of a command that runs concurrently with the turn; empty: wait for the turn
}

// begin starts something in a thread of another process.
type begin func(context.Context, *threadsocket.Client) (begun, error)

// handOver returns a function that starts a task with the settings set, or nil if there is no task. schema applies to the last
// message.
func handOver(task string, set threadsocket.Settings, schema []byte) begin {
	if task == "" {
		return nil
	}
	return func(ctx context.Context, c *threadsocket.Client) (begun, error) {
		r, err := c.Start(ctx, threadsocket.StartParams{Text: task, Settings: set, OutputSchema: schema})
		if err != nil && set != (threadsocket.Settings{}) {
			err = hint.With(fmt.Errorf("%w: the change was waiting for the running turn, whose process has ended", err), "run the command again")
		}
		return begun{turn: r.Turn}, err
	}
}

// typed starts what a user typed: a command after an exclamation mark, otherwise a task.
func typed(line string) begin {
	command, ok := strings.CutPrefix(line, "!")
	if !ok {
		return handOver(line, threadsocket.Settings{}, nil)
	}
	return func(ctx context.Context, c *threadsocket.Client) (begun, error) {
		r, err := c.Shell(ctx, threadsocket.ShellParams{Command: strings.TrimSpace(command)})
		b := begun{turn: r.Turn}
		if r.Concurrent {
			b.call = r.Call
		}
		return b, err
	}
}

// attachTo shows a thread of another process: until what first started has ended, or until the thread ends if first is nil.
func (a *app) attachTo(ctx context.Context, home string, id event.ThreadID, f execFlags, first begin) (err error) {
	return a.attachWith(ctx, home, id, f, a.view(f, nil), first)
}

// attachWith is like attachTo with a command's own view.
func (a *app) attachWith(ctx context.Context, home string, id event.ThreadID, f execFlags, show render.View, first begin) (err error) {
	c, err := a.dial(ctx, home, id)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the thread continues; there is nothing to lose
	var mine begun
	if first != nil {
		if mine, err = first(ctx, c); err != nil {
			return err
		}
	}
	return a.watch(ctx, c, id, f, show, mine)
}

func (a *app) dial(ctx context.Context, home string, id event.ThreadID) (*threadsocket.Client, error) {
	path, err := runsocket.Path(home, id)
	if err != nil {
		return nil, err
	}
	c, err := threadsocket.Dial(ctx, path)
	if errors.Is(err, threadsocket.ErrGone) {
		return nil, hint.With(fmt.Errorf("no process runs thread %s", id), fmt.Sprintf("continue it with `gantry resume %s`", id))
	}
	return c, err
}

// watch shows the events of a thread until mine has ended, or, if mine is empty, until the thread ends.
func (a *app) watch(ctx context.Context, c *threadsocket.Client, id event.ThreadID, f execFlags, show render.View, mine begun) error {
	// From here on, events arrive and are read continuously.
	if _, err := c.Subscribe(ctx, threadsocket.SubscribeParams{}); err != nil {
		return err
	}
	show.Started(id)
	for {
		e, err := c.Next(ctx)
		if errors.Is(err, threadsocket.ErrGone) {
			if mine.turn != "" {
				return hint.With(fmt.Errorf("%w before the turn ended", err), fmt.Sprintf("continue it with `gantry resume %s`", id))
			}
			return nil
		}
		if err != nil {
			return err
		}
		if f.ownTurn && e.Turn != mine.turn {
			continue
		}
		if err := show.Event(e, false); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
		switch b := e.Body.(type) {
		case event.ItemCompleted:
			switch {
			case mine.call == "" || b.Item.Call != mine.call:
			case b.Item.Status == event.StatusAborted:
				return console.ErrTurn
			default:
				return nil
			}
		case event.TurnEnded:
			if e.Turn != mine.turn || mine.call != "" {
				continue
			}
			if err := show.Ended(b); err != nil {
				return err
			}
			if b.Status != event.TurnCompleted {
				return console.ErrTurn
			}
			return f.writeLast(b.LastMessage)
		}
	}
}
