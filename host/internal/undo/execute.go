package undo

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Report describes what an undo has done, or would do.
type Report struct {
	Undo   event.TurnID   `json:"undo,omitempty"` // its ID, with which it can be undone; empty: nothing was changed
	Undoes []event.TurnID `json:"undoes"`         // turns, or other undos
	Files  []FileReport   `json:"files"`          // sorted by path
	// Refused: there are obstacles, and nothing was changed.
	Refused bool `json:"refused,omitempty"`
	// Commands is the number of calls that ran commands. Files that only commands changed are not restored.
	Commands int `json:"commands,omitempty"`
	Skipped  int `json:"left,omitempty"` // files that were too many to be kept
}

// FileReport describes what an undo does to one file.
type FileReport struct {
	Path string `json:"path"` // absolute
	// Action is "write" (other content or mode), "create", "remove" or "none".
	Action   string   `json:"action"`
	Obstacle Obstacle `json:"obstacle,omitempty"`
	Reason   string   `json:"reason,omitempty"` // of the obstacle
}

// Options are the options of an undo.
type Options struct {
	Force  bool `json:"force,omitempty"`
	DryRun bool `json:"dryRun,omitempty"`
}

// RemoveLeftovers removes the temporary files of interrupted undos. [Execute] does so as well; this function is for logs without anything to undo.
func RemoveLeftovers(list []checkpoint.Record) { removeTemporary(interrupted(list)) }

// Execute undoes a choice. If there are obstacles, they are in the report, and the error is a [*RefusedError].
func Execute(ctx context.Context, store checkpoint.Store, j Journal, c Choice, o Options) (Report, error) {
	r := Report{Undoes: c.Undoes, Files: []FileReport{}, Commands: c.Commands, Skipped: c.Skipped}
	p, err := Make(ctx, store, c.Changes.Net())
	if err != nil {
		return r, err
	}
	does := map[string]bool{}
	for _, s := range p.Selected(o.Force) {
		does[s.Path] = true
	}
	for _, s := range p.Steps {
		f := FileReport{Path: s.Path, Action: "none", Obstacle: s.Obstacle, Reason: s.Reason}
		if does[s.Path] {
			f.Action = action(s)
		}
		r.Files = append(r.Files, f)
	}
	r.Refused = len(p.Obstacles()) > 0 && !o.Force
	if o.DryRun {
		return r, nil
	}
	p.resume(c.interrupted)
	removeTemporary(c.interrupted)
	id := event.NewTurnID()
	done, err := p.Run(ctx, j, Request{ID: id, Undoes: c.Undoes, Force: o.Force})
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return r, refused
	}
	if len(done) > 0 {
		r.Undo = id
	}
	return r, err
}

// Err returns the obstacles as a [*RefusedError] if there are any and nothing was changed because of them.
func (r Report) Err() error {
	if !r.Refused {
		return nil
	}
	e := &RefusedError{}
	for _, f := range r.Files {
		if f.Obstacle != None {
			e.Steps = append(e.Steps, Step{Path: f.Path, Obstacle: f.Obstacle, Reason: f.Reason})
		}
	}
	return e
}

func action(s Step) string {
	switch {
	case s.Want.Kind == event.FileAbsent:
		return "remove"
	case s.Now.Kind == event.FileAbsent:
		return "create"
	}
	return "write"
}

// Paths returns the files that an undo has changed.
func (r Report) Paths() []string {
	var out []string
	for _, f := range r.Files {
		if r.Undo != "" && f.Action != "none" {
			out = append(out, f.Path)
		}
	}
	return out
}
