package threads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) diffCommand() *cobra.Command {
	var turn string
	var stat, asJSON, all, executable bool
	cmd := &cobra.Command{
		Use:   "diff [flags] [THREAD]",
		Short: "Show the file changes of a turn",
		Long: "diff shows the net file changes of a turn as a diff that git can apply: `gantry diff | git apply -R` reverts them. The\n" +
			"default is this folder's newest thread and its last turn that changed files. Paths are relative to the git work tree that\n" +
			"the thread works in, or else to its folder.\n\n" +
			"The diff covers changes by tools that declare which files they write, such as those that apply patches. Changes by\n" +
			"commands are only included if they are in the same files. " + console.TurnHelp + "\n\n" +
			"--executable instead lists the files that other programs execute, or read their settings from, and that sandboxed\n" +
			"commands in the thread have changed or created, and those of them that were quarantined.",
		Args: console.Takes(0, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				id, err := a.thisThread(ctx, h, args, all)
				if err != nil {
					return err
				}
				if executable {
					return a.printExecutable(h.Events(ctx, id, 0), asJSON)
				}
				list, err := checkpoint.Read(h.Events(ctx, id, 0))
				if err != nil {
					return err
				}
				r, err := turnOf(list, turn)
				if err != nil {
					return err
				}
				d, err := a.diffOf(ctx, h, id, r)
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					return a.PrintJSON(d)
				case stat:
					a.printStat(d)
				default:
					a.printDiff(d.Diff)
				}
				d.notes(func(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) })
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&turn, "turn", "", "show the changes of `TURN`, or of an undo")
	fs.BoolVar(&stat, "stat", false, "only list the files, with line counts")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	fs.BoolVar(&all, "all", false, "without THREAD: consider threads of all folders")
	fs.BoolVar(&executable, "executable", false, "list changed files that other programs execute")
	console.Exclusive(cmd, "stat", "json")
	console.Exclusive(cmd, "executable", "stat")
	console.Exclusive(cmd, "executable", "turn")
	return cmd
}

// thisThread returns the named thread, or the most recent one of the folder.
func (a *app) thisThread(ctx context.Context, h *hub.Hub, args []string, all bool) (event.ThreadID, error) {
	which := ""
	if len(args) > 0 {
		if which = args[0]; which == "" {
			return "", console.UsageError{Text: "empty thread name", Next: "specify one, or omit it for this folder's newest thread"}
		}
	}
	cwd, err := a.WorkDir("")
	if err != nil {
		return "", err
	}
	return console.ThreadIn(ctx, h, which, cwd, all)
}

// turnOf returns the record of a turn, or of the last turn with changes.
func turnOf(list []checkpoint.Record, which string) (*checkpoint.Record, error) {
	if which != "" {
		i, err := checkpoint.Find(list, which)
		if err != nil {
			return nil, err
		}
		return &list[i], nil
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Turn && len(list[i].Changes.Net()) > 0 {
			return &list[i], nil
		}
	}
	return nil, errors.New("no turn of the thread has changed files with a tool that declares its changes; changes by commands are not tracked")
}

// turnDiff is the output of `diff --json`.
type turnDiff struct {
	Thread   event.ThreadID     `json:"thread"`
	Turn     event.TurnID       `json:"turn"`
	Number   int                `json:"number,omitempty"` // the turn's number; absent for undo and reverted turns
	Undoes   []event.TurnID     `json:"undoes,omitempty"` // for an undo
	Undone   bool               `json:"undone,omitempty"`
	Files    []event.DiffedFile `json:"files"`
	Diff     string             `json:"diff"`
	Commands int                `json:"commands,omitempty"` // calls that ran commands
	Left     int                `json:"left,omitempty"`     // files beyond the limit that were not kept
	Unsure   []string           `json:"unsure,omitempty"`   // files of calls without a recorded end
	Inexact  []string           `json:"inexact,omitempty"`  // files whose content was not kept: their part of the diff cannot be applied
}

// diffOf returns the diff of a record. The content is in the store, except what a crashed host did not store in time.
func (a *app) diffOf(ctx context.Context, h *hub.Hub, id event.ThreadID, r *checkpoint.Record) (turnDiff, error) {
	info, err := h.Info(ctx, string(id))
	if err != nil {
		return turnDiff{}, err
	}
	net := r.Changes.Net()
	out := turnDiff{
		Thread: id, Turn: r.ID, Number: r.Number, Undoes: r.Undoes, Undone: r.Undone, Commands: r.Commands, Left: r.Skipped,
		Files: []event.DiffedFile{},
	}
	root := checkpoint.Root(info.Cwd)
	for i := range net {
		f := &net[i]
		if !f.Open {
			continue
		}
		now := checkpoint.Inspect(f.Path)
		if f.After.Kind == event.FileUnreadable || !checkpoint.Matches(f.After, now.FileState) {
			out.Unsure = append(out.Unsure, checkpoint.Shown(root, f.Path))
		}
		f.After = now.FileState
	}
	artifact := func(ctx context.Context, digest string) (io.ReadCloser, error) { return h.Artifact(ctx, id, digest) }
	write := checkpoint.Renderer{Root: root, Content: func(path string, st event.FileState) (string, error) {
		content, err := checkpoint.Stored(ctx, artifact, st)
		if err != nil {
			if now := checkpoint.Inspect(path); now.SHA256 != "" && now.SHA256 == st.SHA256 {
				return string(now.Data), nil
			}
		}
		return content, err
	}}
	var text strings.Builder
	for _, p := range write.Render(net) {
		out.Files = append(out.Files, p.DiffedFile)
		text.WriteString(p.Diff)
		if p.Unknown {
			out.Inexact = append(out.Inexact, p.Path)
		}
	}
	out.Diff = text.String()
	return out, nil
}

// notes adds what the diff does not show.
func (d turnDiff) notes(say func(string, ...any)) {
	if len(d.Files) == 0 {
		say("no files differ")
	}
	if d.Undone {
		say("these changes were undone")
	}
	for _, f := range d.Unsure {
		say("%s: the host ended before it recorded this change; the current content is shown", render.Clean(f))
	}
	for _, f := range d.Inexact {
		say("%s: its content was not backed up, so this part can't be applied", render.Clean(f))
	}
	if d.Commands > 0 {
		say("%s ran in this turn; files changed only by commands are not shown", render.Plural(d.Commands, "command"))
	}
	if d.Left > 0 {
		say("%s exceeded the limit and are not shown", render.Plural(d.Left, "file"))
	}
}

// printDiff writes a diff unchanged, so that git can read it, or on a terminal with colours and without control characters.
func (a *app) printDiff(diff string) {
	if !term.IsTerminal(int(a.Stdout.Fd())) {
		fmt.Fprint(a.Stdout, diff)
		return
	}
	render.WriteDiff(a.Stdout, diff, a.Colour(a.Stdout))
}

func (a *app) printStat(d turnDiff) {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	for _, f := range d.Files {
		name := render.Clean(f.Path)
		if f.MovedFrom != "" {
			name = render.Clean(f.MovedFrom) + " → " + name
		}
		lines := fmt.Sprintf("+%d\t-%d", f.Added, f.Removed)
		if f.Binary {
			lines = "binary\t"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Kind, name, lines)
	}
	_ = w.Flush() // the output keeps the error
}
