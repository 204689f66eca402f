package threadsocket

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/undo"
)

const methodUndo = prefix + "undoFiles"

// UndoParams select the file changes to undo: those of a turn, or of another undo.
type UndoParams struct {
	OfThread
	Turn string `json:"turn,omitempty"` // number, ID, or prefix of an ID; empty: the last turn with changes that were not undone
	Redo bool   `json:"redo,omitempty"` // instead of a turn: undo the last undo
	undo.Options
}

// Choose finds the selected changes in a log.
func (p UndoParams) Choose(list []checkpoint.Record) (undo.Choice, error) {
	switch {
	case p.Redo && p.Turn != "":
		return undo.Choice{}, errors.New("use either a turn or redo, not both")
	case p.Redo:
		return undo.Redo(list)
	case p.Turn != "":
		return undo.Named(list, p.Turn)
	}
	return undo.Last(list)
}

// Take undoes the selected changes.
func (p UndoParams) Take(ctx context.Context, s checkpoint.Store, j undo.Journal, list []checkpoint.Record) (undo.Report, error) {
	choice, err := p.Choose(list)
	if err != nil {
		if !p.DryRun {
			undo.RemoveLeftovers(list)
		}
		return undo.Report{}, err
	}
	return undo.Execute(ctx, s, j, choice, p.Options)
}

func (t *served) undo(ctx context.Context, p UndoParams) (undo.Report, error) {
	return t.Library.UndoFiles(ctx, t.ID(), p)
}

// Undo restores the files of a turn.
func (c *Client) Undo(ctx context.Context, p UndoParams) (r undo.Report, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodUndo, p, &r)
	return r, err
}
