// Package undo puts the files of a turn back to what they were before it.
//
// It owns: what is in the way of that, who may be overruled, the order of the writes, and that all files are put back or none.
// It must not know: how a thread's log is read, which door asks, how content is kept.
//
// Start with [Make], which changes nothing, then [Plan.Run]. An undo keeps what it replaces, so it can be undone as well.
package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Obstacle is what stands between a file and its earlier state.
type Obstacle string

// The obstacles. Force overrules the first three; the others it leaves alone, and puts back the rest.
const (
	None      Obstacle = ""
	Changed   Obstacle = "changed since" // it is not what the turn left
	Mixed     Obstacle = "mixed"         // something else changed it during the turn
	Uncertain Obstacle = "unsure"        // the end of the call that changed it was not recorded, and it is not what was to come
	NotStored Obstacle = "not kept"      // its earlier content is not in the store
	Blocked   Obstacle = "in the way"    // a folder or the like stands there, or its own folder is another one
)

// CanForce tells whether force overrules it.
func (o Obstacle) CanForce() bool { return o == Changed || o == Mixed || o == Uncertain }

// Step is what is to be done to one file.
type Step struct {
	Path      string
	Now       event.FileState // what stands there
	AfterTurn event.FileState // what the turn left there
	Want      event.FileState // what stood there before the turn
	Obstacle  Obstacle
	Reason    string // for people: what is in the way

	newFolder string // first folder above it that the turn made
	from      string // where its content is now, if the turn had moved it
	now       checkpoint.Snapshot
	data      []byte // that Want stands for
}

// Done tells that the file is as wanted already.
func (s Step) Done() bool { return checkpoint.Matches(s.Want, s.Now) }

// Plan is what an undo would do.
type Plan struct {
	Steps []Step // sorted by path
	store checkpoint.Store
	// begun are files that an undo of the same had put back before it was cut off, with what stood there: this one counts them as
	// its own, so that undoing it brings back all.
	begun map[string]event.FileState
}

// Make looks at the files and finds out what it takes to put them back.
func Make(ctx context.Context, store checkpoint.Store, net []checkpoint.File) (*Plan, error) {
	p := &Plan{store: store}
	for _, f := range net {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		p.Steps = append(p.Steps, p.step(ctx, f))
	}
	for _, f := range net {
		for i := range p.Steps {
			s := &p.Steps[i]
			if f.From != "" && s.Path == f.From {
				s.from = f.Path
			}
			// A folder that the turn made goes with the last of its files, also with those that came later.
			if within(s.Path, f.NewFolder) && (s.newFolder == "" || within(s.newFolder, f.NewFolder)) {
				s.newFolder = f.NewFolder
			}
		}
	}
	return p, nil
}

func (p *Plan) step(ctx context.Context, f checkpoint.File) Step {
	now := checkpoint.Inspect(f.Path)
	s := Step{Path: f.Path, Now: now.FileState, AfterTurn: f.After, Want: f.Before, now: now, newFolder: f.NewFolder}
	if s.Done() {
		return s
	}
	block := func(o Obstacle, format string, args ...any) Step {
		s.Obstacle, s.Reason = o, fmt.Sprintf(format, args...)
		return s
	}
	if at, _ := checkpoint.Resolve(f.Path); at != f.Path {
		return block(Blocked, "its folder is now %s", at)
	}
	switch {
	case s.Now.Kind == event.FileOther:
		return block(Blocked, "the path is now a folder, or another thing that is not a file")
	case s.Now.Kind == event.FileUnreadable:
		return block(Blocked, "it can't be read: %s", s.Now.Why)
	case s.Now.Kind == event.FileRegular && s.Now.SHA256 == "":
		return block(Blocked, "its current content could not be restored later: %s", s.Now.Why)
	case s.Want.Kind == event.FileOther || s.Want.Kind == event.FileUnreadable:
		return block(NotStored, "it was not a file, or could not be read")
	case s.Want.Kind == event.FileRegular:
		if !s.Want.Kept {
			return block(NotStored, "its previous content was not stored: %s", s.Want.Why)
		}
		data, err := checkpoint.Stored(ctx, p.store, s.Want)
		if err != nil {
			return block(NotStored, "its previous content is no longer in the store: %v", err)
		}
		if s.data = []byte(data); digest(s.data) != s.Want.SHA256 {
			return block(NotStored, "its previous content in the store is damaged")
		}
	}
	switch {
	case f.Open && !checkpoint.Matches(f.After, s.Now):
		return block(Uncertain, "gantry was ended while it was being changed, and it is not in the state that the change would have produced")
	case !checkpoint.Matches(f.After, s.Now):
		return block(Changed, "it has been changed since")
	case f.ChangedOutside:
		return block(Mixed, "something else changed it during the turn as well")
	}
	return s
}

// resume takes over what undos that were cut off have done.
func (p *Plan) resume(cut []checkpoint.Record) {
	p.begun = map[string]event.FileState{}
	for _, r := range cut {
		for _, f := range r.Changes.All() {
			for _, s := range p.Steps {
				if s.Path == f.Path && s.Done() && f.Open && f.Before.Same(s.AfterTurn) && checkpoint.Matches(f.After, s.Now) {
					p.begun[f.Path] = f.Before
				}
			}
		}
	}
}

func within(path, folder string) bool {
	return folder != "" && strings.HasPrefix(path, folder+string(filepath.Separator))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Obstacles are the steps that something stands in the way of.
func (p *Plan) Obstacles() []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Obstacle != None {
			out = append(out, s)
		}
	}
	return out
}

// Selected are the steps that Run will take; with force those, too, whose obstacle can be overruled.
func (p *Plan) Selected(force bool) []Step {
	var out []Step
	for _, s := range p.Steps {
		if !s.Done() && (s.Obstacle == None || force && s.Obstacle.CanForce()) {
			out = append(out, s)
		}
	}
	return out
}

// Net is what Run will do, as the net change that it is: for a preview.
func (p *Plan) Net(force bool) []checkpoint.File {
	var out []checkpoint.File
	for _, s := range p.Selected(force) {
		out = append(out, checkpoint.File{Path: s.Path, From: s.from, Before: s.Now, After: s.Want})
	}
	return out
}

// Content reads what a step has at hand, for a preview: what stands there now is not in the store yet.
func (p *Plan) Content(path string, s event.FileState) (string, bool) {
	for _, step := range p.Steps {
		switch {
		case step.Path != path:
		case step.Now.Same(s):
			return string(step.now.Data), s.SHA256 != ""
		case step.Want.Same(s):
			return string(step.data), s.SHA256 != ""
		}
	}
	return "", false
}
