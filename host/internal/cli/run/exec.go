package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
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
	replay      bool   // no requests are sent, so no key is needed
	goal        string // the thread works on it until it is reached; empty: one turn
	goalTokens  int64
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
			"With --goal there is no task: turns begin one after the other until the goal is complete or blocked, or its budget is used up.\n\n" +
			"Press Ctrl-C once to interrupt the turn, twice to exit. Exit status: 0 the turn completed; 1 it failed or was\n" +
			"interrupted, or could not start; 2 the command line is invalid. After SIGTERM, gantry cleans up and ends by that signal.\n\n" +
			"exec also accepts the options that scripts and SDKs pass to codex's exec.",
		Example: "  gantry exec \"run the tests and fix what fails\"\n  git diff | gantry exec --json \"review this\"\n  gantry exec resume --last \"and the docs\"",
		Args:    console.Takes(0, 1, console.TaskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.understand(&f); err != nil {
				return err
			}
			prompt, err := a.taskOrGoal(f, args)
			if err != nil {
				return err
			}
			if err := tape.load(cmd.Context(), a, &f); err != nil {
				return err
			}
			return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *hub.Hub, w hub.Workspace) (*hub.Thread, error) {
				return h.Start(ctx, hub.StartParams{Workspace: w, Model: f.model, Source: cmp.Or(f.codex.source, "exec")})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.goal, "goal", "", "work towards the goal `TEXT` instead of on a task")
	cmd.Flags().Int64Var(&f.goalTokens, "goal-tokens", 0, "let the goal use at most `N` tokens; 0: unlimited, or goals.max_tokens")
	console.Exclusive(cmd, "goal", "output-schema")
	console.Exclusive(cmd, "goal", "image")
	console.Exclusive(cmd, "goal", "ephemeral")
	tape.register(cmd)
	cmd.AddCommand(a.resumeCommand(), a.forkCommand())
	return cmd
}

// taskOrGoal returns the task; with a goal there is none.
func (a *app) taskOrGoal(f execFlags, args []string) (string, error) {
	switch {
	case f.goal == "" && f.goalTokens != 0:
		return "", console.UsageError{Text: "--goal-tokens without --goal", Next: "specify the goal"}
	case f.goal == "":
		return a.readPrompt(args)
	case len(args) > 0:
		return "", console.UsageError{Text: "both a task and --goal", Next: "say everything in the goal"}
	}
	return "", nil
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

// exec runs one turn on the thread that open returns, which may run in another process.
func (a *app) exec(ctx context.Context, f execFlags, prompt string, open func(context.Context, *hub.Hub, hub.Workspace) (*hub.Thread, error)) (err error) {
	cwd, err := a.WorkDir(f.dir)
	if err != nil {
		return unfit(err)
	}
	sub, err := f.submission(prompt)
	if err != nil {
		return unfit(err)
	}
	if f.moves {
		sub.Settings.Cwd = cwd
	}
	if err := a.prepareOutput(&f); err != nil {
		return err
	}
	if f.codex.trust {
		if err := a.trustProject(ctx, cwd); err != nil {
			return err
		}
	}
	w := hub.Workspace{Dir: cwd, WritableRoots: f.access.folders, Ephemeral: f.ephemeral}
	h, err := a.OpenHub(ctx, console.HubOptions{
		Dir: cwd, Ephemeral: f.ephemeral, OneTurn: f.goal == "", Keyless: f.replay, TrustHooks: f.access.hooks, Override: f.codex.override(),
	})
	if err != nil {
		return a.orEphemeral(err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if f.switchTo != "" { // before anything is changed
		cfg, err := h.Configuration(ctx, w)
		if err != nil {
			return err
		}
		if _, err := cfg.Find(f.switchTo); err != nil {
			return err
		}
	}
	t, err := open(ctx, h, w)
	if err != nil {
		return a.orEphemeral(err)
	}
	if !f.ephemeral && !f.json && !f.events && console.Watched(a.Stderr) {
		defer func() { fmt.Fprintf(a.Stderr, "Continue with: gantry resume %s\n", console.TailOf(t.ID())) }()
	}
	asks, err := a.attend(ctx, t, f)
	if err != nil {
		return err
	}
	first := submit(sub)
	if f.goal != "" {
		first = pursue(f.goal, f.goalTokens)
	}
	ended, err := a.runTurn(ctx, t, output{view: a.view(f, asks), asks: asks, goal: f.goal != ""}, first)
	if err != nil {
		return err
	}
	if f.goal != "" {
		if err := a.reached(ctx, t); err != nil {
			return err
		}
	}
	if ended.Status != event.TurnCompleted {
		return console.ErrTurn
	}
	return f.writeLast(ended.LastMessage)
}

// orEphemeral adds to an error that the home folder can't be written what works without one.
func (a *app) orEphemeral(err error) error {
	if home, homeErr := a.Home(); homeErr == nil && console.Unwritable(home, err) {
		return fmt.Errorf("%w, or use --ephemeral, which stores nothing", err) // appended to the next step
	}
	return err
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
func (f *execFlags) submission(prompt string) (sub hub.Submission, err error) {
	sub.Settings.Model, sub.Settings.Reasoning = f.switchTo, f.codex.settings.Reasoning
	if prompt != "" {
		sub.Parts = append(sub.Parts, &llm.Text{Text: prompt})
	}
	images, err := readImages(f.images)
	if err != nil {
		return sub, err
	}
	sub.Parts = append(sub.Parts, images...)
	if f.schema != "" {
		sub.OutputSchema, err = readSchema(f.schema)
	}
	return sub, err
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
