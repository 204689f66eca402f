package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/spf13/cobra"
)

// execFlags are what exec and resume share.
type execFlags struct {
	json        bool
	events      bool
	ephemeral   bool
	lastMessage string
	schema      string
	images      []string
	model       string
	switchTo    string // the model that the thread goes on with; empty: with its own
	dir         string
	verbose     bool
	replay      bool // nobody is asked, so that no key is needed
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	var tape cassetteFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] [TASK | -]",
		Short: "Run one task to its end and print the last message",
		Long: "exec starts a thread, gives it the task and waits until the turn has ended. Progress goes to standard error, the\n" +
			"last message to standard output. Without a TASK, or with -, the task is read from standard input; with both, what\n" +
			"is piped in is added to the task.\n\n" +
			"Ctrl-C once interrupts the turn, twice leaves. Exit status: 0 the turn was completed, 1 it failed or was\n" +
			"interrupted, 2 the command line is wrong.",
		Example: "  gantry exec \"run the tests and fix what fails\"\n  git diff | gantry exec --json \"review this\"",
		Args:    takes(0, 1, taskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt, err := readPrompt(args, a.stdin)
			if err != nil {
				return err
			}
			if err := tape.load(cmd.Context(), a, &f); err != nil {
				return err
			}
			return a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *host.Host, cwd string) (*thread.Thread, error) {
				return h.StartThread(ctx, host.Params{Cwd: cwd, Model: f.model, Source: "exec"})
			})
		},
	}
	f.register(cmd)
	tape.register(cmd)
	cmd.Flags().BoolVar(&f.ephemeral, "ephemeral", false, "store nothing")
	return cmd
}

// registerOutput adds what chooses how events are shown.
func (f *execFlags) registerOutput(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.json, "json", false, "print codex-compatible JSON lines to standard output")
	fs.BoolVar(&f.events, "events", false, "print every event as a JSON line to standard output")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show reasoning and all output")
	exclusive(cmd, "json", "events")
}

func (f *execFlags) register(cmd *cobra.Command) {
	f.registerOutput(cmd)
	f.registerTask(cmd)
	cmd.Flags().StringVarP(&f.lastMessage, "output-last-message", "o", "", "write the last message to `FILE`")
}

// registerTask adds what belongs to a task, and who works on it where.
func (f *execFlags) registerTask(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.schema, "output-schema", "", "JSON Schema in `FILE` that the last message must follow")
	fs.StringArrayVarP(&f.images, "image", "i", nil, "attach the image in `FILE`: PNG, JPEG, GIF or WebP; may be repeated")
	fs.StringVarP(&f.model, "model", "m", "", "use the model `NAME`: the label of a model block, or PROVIDER/MODEL")
	fs.StringVarP(&f.dir, "cd", "C", "", "work in `DIR`")
}

func (a *app) resumeCommand() *cobra.Command {
	var f execFlags
	var last, all bool
	cmd := &cobra.Command{
		Use:   "resume [flags] [THREAD] [TASK | -]",
		Short: "Go on with a stored thread",
		Long: "resume rebuilds a thread from its log and gives it the task. THREAD is an id, the beginning of one, or a name;\n" +
			"--last takes the newest thread of this folder. Calls that were running when the host stopped are told to the model\n" +
			"as started with an unknown outcome; they are not run again. With --model the thread goes on with another model, also\n" +
			"when it is resumed the next time.",
		Args: takes(0, 2, "THREAD", taskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			which := ""
			if !last {
				if len(args) == 0 {
					return usage("no thread is named; next: name one, which `gantry threads list` shows, or use --last")
				}
				if which, args = args[0], args[1:]; which == "" {
					return usage("the name of the thread is empty; next: name one, or use --last for the newest one of this folder")
				}
			}
			if len(args) > 1 {
				return usage("%q is an argument too many: with --last there is only a TASK; next: put a task of several words in quotes", args[1])
			}
			prompt, err := readPrompt(args, a.stdin)
			if err != nil {
				return err
			}
			f.switchTo = f.model
			var resumed event.ThreadID
			err = a.exec(cmd.Context(), f, prompt, func(ctx context.Context, h *host.Host, cwd string) (*thread.Thread, error) {
				id, err := findThread(ctx, h.Store(), which, cwd, all)
				if err != nil {
					return nil, err
				}
				resumed = id
				return h.ResumeThread(ctx, id)
			})
			if _, runs := errors.AsType[*store.LockedError](err); !runs {
				return err
			}
			home, err := a.home()
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stderr, "another process runs this thread; the task is handed to it")
			return a.attachTo(cmd.Context(), home, resumed, f, handOver(prompt, f.switchTo))
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&last, "last", false, "the newest thread of this folder")
	cmd.Flags().BoolVar(&all, "all", false, "with --last: of any folder")
	return cmd
}

// exec runs one turn on the thread that open gives.
func (a *app) exec(ctx context.Context, f execFlags, prompt string, open func(context.Context, *host.Host, string) (*thread.Thread, error)) (err error) {
	cwd, err := a.workDir(f.dir)
	if err != nil {
		return err
	}
	sub, err := f.submission(prompt)
	if err != nil {
		return err
	}
	if f.lastMessage != "" {
		if err := prepareOutput(f.lastMessage); err != nil {
			return err
		}
	}
	h, err := a.openHost(ctx, hostOptions{dir: cwd, ephemeral: f.ephemeral, keyless: f.replay})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if f.switchTo != "" {
		if _, err := h.FindModel(f.switchTo); err != nil {
			return err
		}
	}
	t, err := open(ctx, h, cwd)
	if err != nil {
		return err
	}
	ended, err := a.runTurn(ctx, t, f, sub)
	if err != nil {
		return err
	}
	if ended.Status != event.TurnCompleted {
		return errTurn
	}
	if f.lastMessage != "" {
		return os.WriteFile(f.lastMessage, []byte(ended.LastMessage), 0o666) // as any file that the user asked for
	}
	return nil
}

// submission is what the thread is asked to do.
func (f *execFlags) submission(prompt string) (sub thread.Submission, err error) {
	sub.Model = f.switchTo
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

// errTurn ends the program with status 1; the reason was shown.
var errTurn = errors.New("the turn was not completed")

// view shows a thread's events.
type view interface {
	Started(id event.ThreadID)
	// Event shows one event. more: the next one is there already, so that this one need not be seen before it.
	Event(e event.Event, more bool) error
	Ended(e event.TurnEnded) error
}

// runTurn submits and shows what happens until the turn has ended, and with it the one that took its place.
func (a *app) runTurn(ctx context.Context, t *thread.Thread, f execFlags, sub thread.Submission) (event.TurnEnded, error) {
	// A thread that is started by another than its first event still has all of them: it is subscribed before it is asked.
	events, err := t.Subscribe(ctx, thread.Lossless)
	if err != nil {
		return event.TurnEnded{}, err
	}
	defer events.Close()
	asks := a.attend(t, f)
	defer asks.close()
	show := a.view(f, asks)
	show.Started(t.ID())

	stop := a.interruptOnSignal(ctx, t)
	defer stop()
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
		case event.QuestionAsked:
			asks.ask(b)
		case event.QuestionResolved:
			asks.resolved(b)
		case event.TurnEnded:
			switch {
			case replaced != nil:
				return *replaced, show.Ended(*replaced)
			case e.Turn == accepted.Turn && b.Reason == orchestrate.ErrReplaced.Error():
				replaced = &b // the host must not end before what somebody else asked of the thread
			case e.Turn == accepted.Turn:
				return b, show.Ended(b)
			}
		}
	}
}

// leaveAfter is how long the second Ctrl-C gives the host to end its processes.
const leaveAfter = 3 * time.Second

// interruptOnSignal: the first Ctrl-C interrupts the turn, the second leaves; SIGTERM leaves.
func (a *app) interruptOnSignal(ctx context.Context, t *thread.Thread) (stop func()) {
	signals := make(chan os.Signal, 2)
	// A terminal that is gone ends the run like SIGTERM: the turn is closed, nothing is left behind.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Nobody acts on this one: it is taken so that writing to a reader that is gone is an error instead of our end. It
	// comes for every such write, a dead plugin's socket included.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() { // owned by the caller: stop ends it and waits
		defer close(finished)
		for count := 0; ; {
			select {
			case <-done:
				return
			case s := <-signals:
				count++
				if count == 1 && s == os.Interrupt {
					fmt.Fprintln(a.stderr, "\ninterrupting; Ctrl-C again leaves")
					_ = t.Interrupt(ctx, orchestrate.ErrInterrupted) // an idle thread has nothing to interrupt
					continue
				}
				time.AfterFunc(leaveAfter, func() { os.Exit(1) }) // the host's own end did not come
				a.leave(orchestrate.ErrShutdown)
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(broken)
		close(done)
		<-finished
	}
}

func (a *app) workDir(dir string) (string, error) {
	if dir == "" {
		dir = a.dir
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(abs)
	if err == nil && st.IsDir() {
		_, err = os.Stat(filepath.Join(abs, ".") + string(filepath.Separator) + ".") // whether it may be entered
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", usage("there is no folder %s; next: check the path, which starts at the folder you are in", dir)
	case err != nil:
		return "", usage("the folder %s can't be used: %v; next: name another one", dir, pathReason(err))
	case !st.IsDir():
		return "", usage("%s is not a folder; next: name a folder", dir)
	}
	return abs, nil
}

var errNull = errors.New("it is null")

// pathReason is an error without the name of the file, where that is told anyway.
func pathReason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func readSchema(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("the output schema %s can't be read: %v; next: name a file with a JSON Schema", path, pathReason(err))
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil || v == nil {
		return nil, usage("the output schema %s is not a JSON object: %v; next: correct it, or name another file", path, cmp.Or(err, errNull))
	}
	return b, nil
}

// prepareOutput makes sure that the file can be written before anything is spent; an existing one keeps its content
// until the turn is completed.
func prepareOutput(path string) error {
	if path == "-" {
		return usage("--output-last-message writes a file; next: leave it out: the last message goes to standard output")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return usage("the file %s for the last message can't be written: %v; next: name a file in a folder that exists", path, pathReason(err))
	}
	return f.Close()
}
