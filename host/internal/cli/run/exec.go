package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/spf13/cobra"
)

// execFlags are shared by exec and resume.
type execFlags struct {
	json        bool
	events      bool
	ephemeral   bool
	lastMessage string
	schema      string
	images      []string
	model       string
	switchTo    string // the model to switch the thread to; empty: keep its model
	moves       bool   // move the thread to the folder of --cd
	dir         string
	verbose     bool
	replay      bool // no requests are sent, so no key is needed
	ownTurn     bool // of a thread in another process, show only the turn that was started here
	access      accessFlags
	codex       codexFlags
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	var tape cassetteFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] [TASK | -]",
		Short: "Run one task to completion and print the last message",
		Long: "exec starts a thread with the task and waits until the turn ends. Progress is written to standard error, the last message\n" +
			"to standard output. Without a TASK, or with -, the task is read from standard input; if there are both, piped input is\n" +
			"added to the task.\n\n" +
			"Press Ctrl-C once to interrupt the turn, twice to exit. Exit status: 0 the turn completed; 1 it failed or was\n" +
			"interrupted, or could not start; 2 the command line is invalid. After SIGTERM, gantry cleans up and ends by that signal.\n\n" +
			"exec also accepts the options that scripts and SDKs pass to codex's exec.",
		Example: "  gantry exec \"run the tests and fix what fails\"\n  git diff | gantry exec --json \"review this\"\n  gantry exec resume --last \"and the docs\"",
		Args:    console.Takes(0, 1, console.TaskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.understand(&f); err != nil {
				return err
			}
			prompt, err := a.readPrompt(args)
			if err != nil {
				return err
			}
			if err := tape.load(cmd.Context(), a, &f); err != nil {
				return err
			}
			return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *host.Host, cwd string) (*thread.Thread, error) {
				return h.StartThread(ctx, host.Params{Cwd: cwd, Model: f.model, Source: cmp.Or(f.codex.source, "exec")})
			})
		},
	}
	f.register(cmd)
	tape.register(cmd)
	cmd.AddCommand(a.resumeCommand(), a.forkCommand())
	return cmd
}

// registerOutput adds the flags that select how events are shown.
func (f *execFlags) registerOutput(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.json, "json", false, "print codex-compatible JSON lines to standard output")
	fs.BoolVar(&f.events, "events", false, "print every event as a JSON line to standard output")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show reasoning and complete output")
	console.Exclusive(cmd, "json", "events")
}

func (f *execFlags) register(cmd *cobra.Command) {
	f.registerOutput(cmd)
	f.registerTask(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.lastMessage, "output-last-message", "o", "", "write the last message to `FILE`; -: standard output")
	fs.BoolVar(&f.ephemeral, "ephemeral", false, "store nothing")
	f.access.register(cmd)
	f.codex.register(cmd)
}

// registerTask adds the flags for a task and for the model and folder it uses.
func (f *execFlags) registerTask(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.schema, "output-schema", "", "require the last message to match the JSON Schema in `FILE`")
	fs.StringArrayVarP(&f.images, "image", "i", nil, "attach an image `FILE`: PNG, JPEG, GIF or WebP; can be repeated")
	fs.StringVarP(&f.model, "model", "m", "", "use the model `NAME`: the label of a model block, or PROVIDER/MODEL")
	fs.StringVarP(&f.dir, "cd", "C", "", "work in `DIR`")
}

// exec runs one turn on the thread that open returns.
func (a *app) exec(ctx context.Context, f execFlags, prompt string, open func(context.Context, *host.Host, string) (*thread.Thread, error)) (err error) {
	cwd, err := a.WorkDir(f.dir)
	if err != nil {
		return unfit(err)
	}
	sub, err := f.submission(prompt)
	if err != nil {
		return unfit(err)
	}
	if f.moves {
		sub.Cwd = cwd
	}
	if err := a.prepareOutput(&f); err != nil {
		return err
	}
	if f.codex.trust {
		if err := a.trustProject(ctx, cwd); err != nil {
			return err
		}
	}
	h, err := a.OpenHost(ctx, console.HostOptions{
		Dir: cwd, Ephemeral: f.ephemeral, Keyless: f.replay, Folders: f.access.folders, TrustHooks: f.access.hooks, Override: f.codex.override(),
	})
	if err != nil {
		if home, homeErr := a.Home(); homeErr == nil && store.IsUnwritable(err) && !host.Writable(home) {
			err = fmt.Errorf("%w, or use --ephemeral, which stores nothing", err) // appended to the next step
		}
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if f.switchTo != "" {
		if _, err := h.Models().Find(f.switchTo); err != nil {
			return err
		}
	}
	t, err := open(ctx, h, cwd)
	if err != nil {
		return err
	}
	ended, err := a.runTurn(ctx, h, t, f, sub)
	if err != nil {
		return err
	}
	if ended.Status != event.TurnCompleted {
		return console.ErrTurn
	}
	return f.writeLast(ended.LastMessage)
}

// unfit converts a usage error about a task, file or folder, so that the exit status is 1. As in codex's exec, status 2 is
// reserved for errors in the command line itself.
func unfit(err error) error {
	u, ok := errors.AsType[console.UsageError](err)
	if !ok {
		return err
	}
	return hint.New(u.Text, cmp.Or(u.Next, "see `gantry help exec`"))
}

// submission returns what to submit to the thread.
func (f *execFlags) submission(prompt string) (sub thread.Submission, err error) {
	sub.Model, sub.Reasoning = f.switchTo, f.codex.settings.Reasoning
	if prompt != "" {
		sub.Input.Parts = append(sub.Input.Parts, &llm.Text{Text: prompt})
	}
	images, err := readImages(f.images)
	if err != nil {
		return sub, err
	}
	sub.Input.Parts = append(sub.Input.Parts, images...)
	if f.schema != "" {
		sub.OutputSchema, err = readSchema(f.schema)
	}
	return sub, err
}

// runTurn submits a task and shows the thread until the turn, and any turn that replaced it, has ended.
func (a *app) runTurn(ctx context.Context, h *host.Host, t *thread.Thread, f execFlags, sub thread.Submission) (event.TurnEnded, error) {
	asks := a.attend(t, f)
	return a.showTurn(ctx, h, t, asks, a.view(f, asks), sub)
}

// showTurn is like runTurn with a command's own view. It closes asks.
func (a *app) showTurn(ctx context.Context, h *host.Host, t *thread.Thread, asks *asks, show render.View, sub thread.Submission) (event.TurnEnded, error) {
	defer asks.close()
	// Subscribe before submitting, so that no event is missed.
	events, err := follow(ctx, t, func(ctx context.Context, after uint64) iter.Seq2[event.Event, error] {
		return h.Store().Events(ctx, t.ID(), after)
	})
	if err != nil {
		return event.TurnEnded{}, err
	}
	defer events.Close()
	show.Started(t.ID())

	stop := a.interruptOnSignal(ctx, t)
	defer stop()
	sub.ExitAfterTurn = true
	accepted, err := t.Submit(ctx, sub)
	if err != nil {
		return event.TurnEnded{}, err
	}
	var replaced *event.TurnEnded
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return event.TurnEnded{}, err
		}
		if err := show.Event(e, events.More()); err != nil {
			return event.TurnEnded{}, fmt.Errorf("write the output: %w", err)
		}
		switch b := e.Body.(type) {
		case event.ItemStarted:
			asks.started(b.Item)
		case event.ItemCompleted:
			asks.completed(b.Item)
		case event.QuestionAsked:
			asks.ask(b)
		case event.QuestionResolved:
			asks.resolved(b)
		case event.TurnEnded:
			switch {
			case replaced != nil:
				return *replaced, show.Ended(*replaced)
			case e.Turn == accepted.Turn && b.Reason == orchestrate.ErrReplaced.Error():
				replaced = &b // the host must not stop before another client's turn has ended
			case e.Turn == accepted.Turn:
				return b, show.Ended(b)
			}
		}
	}
}

var errNull = errors.New("it is null")

func readSchema(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, console.UsageError{Text: fmt.Sprintf("can't read the output schema %s: %v", path, console.PathReason(err)), Next: "specify a file with a JSON Schema"}
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil || v == nil {
		return nil, console.UsageError{Text: fmt.Sprintf("the output schema %s is not a JSON object: %v", path, cmp.Or(err, errNull)), Next: "correct it, or specify another file"}
	}
	return b, nil
}
