package threads

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) undoCommand() *cobra.Command {
	var p hub.UndoParams
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "undo [flags] [THREAD]",
		Short: "Restore files to their state before a turn",
		Long: "undo restores files to their state before a turn: content, modes and links; files that the turn created are deleted. It\n" +
			"restores all files or none. The default is this folder's newest thread, and its last turn that changed files and was not\n" +
			"undone, so running undo again undoes the turn before. The conversation is kept, and the model is told.\n\n" +
			"If files have changed since then, undo lists them and does nothing; --force restores them anyway. The current content is\n" +
			"backed up: --redo reverts the last undo, --turn any of them. --dry-run shows what would be done, with a diff.\n\n" +
			"Only files that tools declare before writing them can be restored, such as those of patches. Other changes by commands\n" +
			"are kept.\n" + console.TurnHelp,
		Example: "  gantry undo --dry-run\n  gantry undo\n  gantry undo --redo",
		Args:    console.Takes(0, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				id, err := a.thisThread(ctx, h, args, all)
				if err != nil {
					return err
				}
				if p.DryRun {
					return a.previewUndo(ctx, h, id, p, asJSON)
				}
				r, err := h.Undo(ctx, id, p)
				if err != nil {
					return err
				}
				if asJSON {
					if err := a.PrintJSON(undoReport{Thread: id, UndoReport: r}); err != nil {
						return err
					}
					if r.Refused {
						return console.ErrShown
					}
					return nil
				}
				if err := r.Err(); err != nil {
					return err
				}
				a.sayUndone(r, p.Redo)
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&p.Turn, "turn", "", "undo `TURN`, or the undo of that name")
	fs.BoolVar(&p.Redo, "redo", false, "revert the last undo")
	fs.BoolVarP(&p.DryRun, "dry-run", "n", false, "only show what would be done")
	fs.BoolVar(&p.Force, "force", false, "also restore files that have changed since, and skip files that can't be restored")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	fs.BoolVar(&all, "all", false, "without THREAD: consider threads of all folders")
	console.Exclusive(cmd, "turn", "redo")
	return cmd
}

// undoReport is the output of `undo --json`.
type undoReport struct {
	Thread event.ThreadID `json:"thread"`
	DryRun bool           `json:"dryRun,omitempty"`
	hub.UndoReport
	Diff string `json:"diff,omitempty"` // of a dry run
}

// previewUndo shows what an undo would do. It changes nothing, so a turn may be running.
func (a *app) previewUndo(ctx context.Context, h *hub.Hub, id event.ThreadID, p hub.UndoParams, asJSON bool) error {
	r, diff, err := h.PreviewUndo(ctx, id, p)
	if err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(undoReport{Thread: id, DryRun: true, UndoReport: r, Diff: diff})
	}
	a.printDiff(diff)
	for _, f := range r.Files {
		fmt.Fprintln(a.Stderr, a.undoLine(f, "would "))
	}
	a.undoNotes(r)
	if r.Refused {
		fmt.Fprintln(a.Stderr, "nothing would be restored without --force")
	}
	return nil
}

// undoLine describes one file of a report.
func (a *app) undoLine(f hub.UndoneFile, would string) string {
	does := map[string]string{"write": "put back", "create": "bring back", "remove": "remove"}[f.Action]
	if would == "" {
		does = map[string]string{"write": "put back", "create": "brought back", "remove": "removed"}[f.Action]
	}
	line := would + does + " " + render.Clean(a.Shown(f.Path))
	if f.Action == "none" {
		line = "leave " + render.Clean(a.Shown(f.Path))
		if f.Obstacle == "" {
			return line + ": already as before the turn"
		}
	}
	if f.Obstacle != "" {
		line += ": " + render.Clean(f.Reason)
	}
	return line
}

func (a *app) undoNotes(r hub.UndoReport) {
	if r.Commands > 0 {
		fmt.Fprintf(a.Stderr, "%s ran in this turn; their changes to other files are kept\n", render.Plural(r.Commands, "command"))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(a.Stderr, "%s exceeded the limit and are not restored\n", render.Plural(r.Skipped, "file"))
	}
}

// sayUndone describes what an undo did.
func (a *app) sayUndone(r hub.UndoReport, redo bool) {
	for _, f := range r.Files {
		if f.Action != "none" || f.Obstacle != "" {
			fmt.Fprintln(a.Stderr, a.undoLine(f, ""))
		}
	}
	a.undoNotes(r)
	switch {
	case r.Undo == "":
		fmt.Fprintln(a.Stderr, "the files are already as before; nothing to do")
	case redo:
		fmt.Fprintf(a.Stderr, "`gantry undo --turn %s` reverts this\n", r.Undo)
	default:
		fmt.Fprintln(a.Stderr, "`gantry undo --redo` reverts this")
	}
}
