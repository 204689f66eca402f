package run

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
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
		Long: "resume rebuilds a thread from its log and gives it the task. THREAD is an ID, its beginning or end, a name, or a\n" +
			"number of `gantry threads list`; --last (-1) selects this folder's newest thread. The model is told that calls that were running when the host stopped have an unknown\n" +
			"outcome; they are not run again. --model and --cd switch the thread to another model or folder permanently. With\n" +
			"--ephemeral, nothing that happens from now on is stored. On a terminal, the end of the thread is shown first.",
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
				t, err := a.resume(ctx, h, w, which, all, "receives the task")
				if err == nil && !f.json && !f.events && console.Watched(a.Stderr) {
					err = a.showEarlier(ctx, h, t.ID(), f.verbose)
				}
				return t, err
			})
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVarP(&last, "last", "1", false, "select this folder's newest thread")
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

// Bounds of what is shown of a thread before it continues: about a screen.
const (
	earlierTurns = 3
	earlierLines = 40
)

// showEarlier shows the end of a thread: what was said and done in its last turns. A turn that still runs is shown later.
func (a *app) showEarlier(ctx context.Context, h *hub.Hub, id event.ThreadID, verbose bool) error {
	turns, err := h.Turns(ctx, id)
	if err != nil {
		return err
	}
	turns = slices.DeleteFunc(turns, func(t hub.TurnInfo) bool { return t.Reverted > 0 || t.LastSeq == 0 || !t.HasInput })
	whole := len(turns) <= earlierTurns
	turns = turns[max(0, len(turns)-earlierTurns):]
	var end lastLines
	show := render.NewHuman(&end, a.Colour(a.Stderr), verbose)
	for _, t := range turns {
		for e, err := range h.Events(ctx, id, t.FirstSeq-1) {
			if err != nil {
				return err
			}
			if e.Seq > t.LastSeq {
				break
			}
			show.Event(e)
		}
	}
	text, all := end.lines()
	if !all || !whole {
		fmt.Fprintf(a.Stderr, "… `gantry threads show %s` shows what was before this\n", id)
	}
	_, err = a.Stderr.Write(text)
	return err
}

// lastLines keeps the last lines written to it.
type lastLines struct {
	kept []byte
	cut  bool
}

// lastLinesBytes bounds what is kept; lines can be long.
const lastLinesBytes = 32 << 10

func (l *lastLines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - lastLinesBytes; over > 0 {
		line := bytes.IndexByte(l.kept[over:], '\n') + 1 // 0: none is complete
		l.kept, l.cut = append([]byte(nil), l.kept[over+line:]...), true
	}
	return len(p), nil
}

// lines returns the last lines. all: nothing was written before them.
func (l *lastLines) lines() (text []byte, all bool) {
	text = l.kept
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	lines := bytes.SplitAfter(text, []byte("\n")) // the last one is empty
	if first := len(lines) - 1 - earlierLines; first > 0 {
		return bytes.Join(lines[first:], nil), false
	}
	return text, !l.cut
}
