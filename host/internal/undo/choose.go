package undo

import (
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Choice is a set of turns or undos to undo.
type Choice struct {
	Undoes   []event.TurnID // turns, or other undos, in the order of the log
	Changes  checkpoint.Changes
	Commands int // calls of them that ran commands: what only they changed stays
	Skipped  int // number of their paths that were not inspected

	interrupted []checkpoint.Record // undos that were cut off
}

// Errors of choices if there is nothing to undo.
var (
	ErrNothing = hint.New("no turn of the thread has file changes that can be undone", "`gantry threads turns` lists its turns")
	// ErrRedoInterrupted: bringing changes back was cut off, and nothing else is there to undo.
	ErrRedoInterrupted = hint.New("there is nothing to undo, but a redo was interrupted", "`gantry undo --redo` completes it")
	ErrNoUndo          = errors.New("nothing in the thread has been undone, so there is nothing to redo")
)

// Last chooses the last turn that has changed files and was not undone. It does not choose undos.
func Last(list []checkpoint.Record) (Choice, error) {
	for i := len(list) - 1; i >= 0; i-- {
		r := list[i]
		if r.Turn && !r.Undone && len(r.Changes.Net()) > 0 {
			return choose(list, i), nil
		}
	}
	for _, u := range interrupted(list) {
		if c, err := Redo(list); err == nil && u.Undoes[0] == c.Undoes[0] {
			return Choice{}, ErrRedoInterrupted
		}
	}
	return Choice{}, ErrNothing
}

// Redo chooses the last undo of a turn that was not undone itself. Undoing it restores the changes of the turn.
func Redo(list []checkpoint.Record) (Choice, error) {
	turns := map[event.TurnID]bool{}
	for _, r := range list {
		turns[r.ID] = r.Turn
	}
	for i := len(list) - 1; i >= 0; i-- {
		if r := list[i]; len(r.Undoes) > 0 && turns[r.Undoes[0]] && r.Ended && !r.Undone {
			return choose(list, i), nil
		}
	}
	return Choice{}, ErrNoUndo
}

// Named chooses the turn or undo that a user names: by number, or by a prefix of its ID.
func Named(list []checkpoint.Record, which string) (Choice, error) {
	i, err := checkpoint.Find(list, which)
	if err != nil {
		return Choice{}, err
	}
	if r := list[i]; r.Undone {
		return Choice{}, hint.With(fmt.Errorf("%s has already been undone", which), "`gantry undo --redo` redoes the last undo")
	}
	return choose(list, i), nil
}

// From chooses a turn and everything after it, including undos: the files return to their state before the turn.
func From(list []checkpoint.Record, first event.TurnID) (Choice, error) {
	for i, r := range list {
		if r.ID != first {
			continue
		}
		c := choose(list, i)
		for j := i + 1; j < len(list); j++ {
			later := &list[j]
			c.Changes.Append(&later.Changes)
			c.Commands += later.Commands
			c.Skipped += later.Skipped
			if later.Turn && !later.Undone {
				c.Undoes = append(c.Undoes, later.ID)
			}
		}
		return c, nil
	}
	return Choice{}, fmt.Errorf("the thread has no turn %s", first)
}

func choose(list []checkpoint.Record, i int) Choice {
	r := &list[i]
	c := Choice{Undoes: []event.TurnID{r.ID}, Commands: r.Commands, Skipped: r.Skipped}
	c.Changes.Append(&r.Changes)
	c.interrupted = interrupted(list)
	return c
}

// interrupted returns the undos that did not complete.
func interrupted(list []checkpoint.Record) (out []checkpoint.Record) {
	for _, u := range list {
		if len(u.Undoes) > 0 && !u.Ended {
			out = append(out, u)
		}
	}
	return out
}
