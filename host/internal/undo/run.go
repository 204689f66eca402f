package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Journal is the event stream of the thread whose files are restored. It must have no other writer meanwhile.
type Journal interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Barrier(ctx context.Context, seq uint64) error
}

// Request describes an undo.
type Request struct {
	ID     event.TurnID   // of the undo itself
	Undoes []event.TurnID // turns, or other undos
	Force  bool
}

// RefusedError says that files have obstacles. Nothing was changed.
type RefusedError struct{ Steps []Step }

// Error implements error.
func (e *RefusedError) Error() string {
	s := "no file was restored:"
	for _, st := range e.Steps {
		s += fmt.Sprintf("\n  %s: %s", st.Path, st.Reason)
	}
	return hint.Line(s, e.NextStep())
}

// NextStep implements [hint.Stepper]. It says what --force would do.
func (e *RefusedError) NextStep() string {
	if slices.ContainsFunc(e.Steps, func(s Step) bool { return s.Obstacle.CanForce() }) {
		return "review these files, then use --force to restore them anyway, except those that can't be restored"
	}
	return "use --force to restore the other files, if any"
}

// Run executes the plan, either completely or not at all, and records it in the journal. Before it changes the first file, the content
// to be replaced is stored and the journal is durable. So an interrupted undo continues when it is requested again.
func (p *Plan) Run(ctx context.Context, j Journal, r Request) ([]Step, error) {
	if stand := p.Obstacles(); len(stand) > 0 && !r.Force {
		return nil, &RefusedError{Steps: stand}
	}
	steps := p.Selected(r.Force)
	if stand := p.Obstacles(); len(steps) == 0 && len(stand) > 0 {
		return nil, &RefusedError{Steps: stand}
	}
	kept := event.FilesKept{Undoes: r.Undoes}
	for i := range steps {
		s := &steps[i]
		if s.Now.SHA256 != "" {
			if _, err := p.store.PutArtifact(ctx, "application/octet-stream", filepath.Base(s.Path), bytes.NewReader(s.now.Data)); err != nil {
				return nil, fmt.Errorf("store the content of %s: %w; no file was restored", s.Path, err)
			}
			s.Now.Kept = true
		}
		_, newFolder := checkpoint.Resolve(s.Path)
		kept.Files = append(kept.Files, event.FileKept{Path: s.Path, Before: s.Now, Wanted: &s.Want, NewFolder: newFolder})
	}
	seq, err := j.Publish(ctx, r.ID, kept)
	if err == nil {
		err = j.Barrier(ctx, seq)
	}
	if err != nil {
		return nil, fmt.Errorf("record the undo in the thread: %w; no file was restored", err)
	}
	// From here on it can't be cancelled: a partial undo is of no use, and the rest takes milliseconds.
	ctx = context.WithoutCancel(ctx)
	failed := apply(string(r.ID), steps)
	crashpoint.At(crashpoint.FilesRestored, "")
	made := event.FilesChanged{Undoes: r.Undoes}
	if failed != nil {
		made.Undoes = nil // nothing was undone
	}
	for i, s := range steps {
		now := checkpoint.Inspect(s.Path)
		if now.Same(s.Now) {
			continue
		}
		now.Kept = now.Same(s.Want) && s.Want.Kept
		made.Changes = append(made.Changes, event.ChangedFile{
			Path: s.Path, MovedFrom: s.from, Before: s.Now, After: now.FileState, NewFolder: kept.Files[i].NewFolder,
		})
	}
	for _, s := range p.Steps {
		if before, ok := p.begun[s.Path]; ok && failed == nil {
			after := s.Now
			after.Kept = s.Want.Kept
			made.Changes = append(made.Changes, event.ChangedFile{Path: s.Path, MovedFrom: s.from, Before: before, After: after})
			steps = append(steps, s)
		}
	}
	seq, err = j.Publish(ctx, r.ID, made)
	if err == nil {
		err = j.Barrier(ctx, seq)
	}
	if failed != nil {
		return nil, errors.Join(failed, err)
	}
	if err != nil {
		return steps, fmt.Errorf("the files were restored, but the thread has no record of it: %w", err)
	}
	return steps, nil
}
