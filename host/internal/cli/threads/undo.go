package threads

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/undo"
	"github.com/spf13/cobra"
)

func (a *app) undoCommand() *cobra.Command {
	var p threadsocket.UndoParams
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
			return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
				id, err := a.thisThread(ctx, s, args, all)
				if err != nil {
					return err
				}
				if p.DryRun {
					return a.previewUndo(ctx, s, id, p, asJSON)
				}
				r, err := a.undo(ctx, s, id, p)
				refused, is := errors.AsType[*undo.RefusedError](err)
				if err != nil && !is {
					return err
				}
				if asJSON {
					if err := a.PrintJSON(undoReport{Thread: id, Report: r}); err != nil {
						return err
					}
					if is {
						return console.ErrShown
					}
					return nil
				}
				if is {
					return refused
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
	undo.Report
	Diff string `json:"diff,omitempty"` // of a dry run
}

// undo asks the host that runs the thread, or performs the undo itself if none does. Obstacles are a separate error.
func (a *app) undo(ctx context.Context, s *store.Store, id event.ThreadID, p threadsocket.UndoParams) (r undo.Report, err error) {
	err = a.OnThread(ctx, s, string(id), func(id event.ThreadID) error {
		return branch.Write(ctx, s, id, func(log *branch.Log) error {
			list, err := checkpoint.Read(s.Events(ctx, id, 0))
			if err != nil {
				return err
			}
			r, err = p.Take(ctx, s, log, list)
			return err
		})
	}, func(c *threadsocket.Client) error {
		if r, err = c.Undo(ctx, p); err != nil || !r.Refused {
			return err
		}
		refused := &undo.RefusedError{}
		for _, f := range r.Files {
			if f.Obstacle != undo.None {
				refused.Steps = append(refused.Steps, undo.Step{Path: f.Path, Obstacle: f.Obstacle, Reason: f.Reason})
			}
		}
		return refused
	})
	return r, err
}

// previewUndo shows what an undo would do. It changes nothing, so the thread may be running.
func (a *app) previewUndo(ctx context.Context, s *store.Store, id event.ThreadID, p threadsocket.UndoParams, asJSON bool) error {
	list, err := checkpoint.Read(s.Events(ctx, id, 0))
	if err != nil {
		return err
	}
	choice, err := p.Choose(list)
	if err != nil {
		return err
	}
	r, err := undo.Execute(ctx, s, nil, choice, p.Options)
	if err != nil {
		return err
	}
	info, err := s.Thread(ctx, string(id))
	if err != nil {
		return err
	}
	plan, err := undo.Make(ctx, s, choice.Changes.Net())
	if err != nil {
		return err
	}
	write := checkpoint.Renderer{Root: checkpoint.Root(info.Cwd), Content: func(path string, st event.FileState) (string, error) {
		content, ok := plan.Content(path, st)
		if !ok {
			return "", errors.New("not available")
		}
		return content, nil
	}}
	var d turnDiff
	for _, part := range write.Render(plan.Net(p.Force)) {
		d.Diff += part.Diff
	}
	if asJSON {
		return a.PrintJSON(undoReport{Thread: id, DryRun: true, Report: r, Diff: d.Diff})
	}
	a.printDiff(d)
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
func (a *app) undoLine(f undo.FileReport, would string) string {
	does := map[string]string{"write": "put back", "create": "bring back", "remove": "remove"}[f.Action]
	if would == "" {
		does = map[string]string{"write": "put back", "create": "brought back", "remove": "removed"}[f.Action]
	}
	line := would + does + " " + render.Clean(a.Shown(f.Path))
	if f.Action == "none" {
		line = "leave " + render.Clean(a.Shown(f.Path))
		if f.Obstacle == undo.None {
			return line + ": already as before the turn"
		}
	}
	if f.Obstacle != undo.None {
		line += ": " + render.Clean(f.Reason)
	}
	return line
}

func (a *app) undoNotes(r undo.Report) {
	if r.Commands > 0 {
		fmt.Fprintf(a.Stderr, "%s ran in this turn; their changes to other files are kept\n", render.Plural(r.Commands, "command"))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(a.Stderr, "%s exceeded the limit and are not restored\n", render.Plural(r.Skipped, "file"))
	}
}

// sayUndone describes what an undo did.
func (a *app) sayUndone(r undo.Report, redo bool) {
	for _, f := range r.Files {
		if f.Action != "none" || f.Obstacle != undo.None {
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
