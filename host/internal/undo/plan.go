// Package undo restores the files of a turn to their state before it.
//
// It owns: the obstacles to that and which of them can be forced, the order of the writes, and the guarantee that either all
// files are restored or none. It must not know: how a thread's log is read, which front end asks, how content is stored.
//
// Start with [Make], which changes nothing, and [Plan.Run]. An undo stores what it replaces, so it can be undone as well.
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

// Obstacle is a reason not to restore a file.
type Obstacle string

// Obstacles. Force overrides the first three; files with other obstacles are skipped.
const (
	None      Obstacle = ""
	Changed   Obstacle = "changed since" // its state differs from the one after the turn
	Mixed     Obstacle = "mixed"         // something else changed it during the turn
	Uncertain Obstacle = "unsure"        // the end of the call that changed it was not recorded, and it is not what was to come
	NotStored Obstacle = "not kept"      // its earlier content is not in the store
	Blocked   Obstacle = "in the way"    // a folder or the like stands there, or its own folder is another one
)

// CanForce tells whether force overrules it.
func (o Obstacle) CanForce() bool { return o == Changed || o == Mixed || o == Uncertain }

// Step is the restoration of one file.
type Step struct {
	Path      string
	Now       event.FileState // the current state
	AfterTurn event.FileState // what the turn left there
	Want      event.FileState // the state before the turn
	Obstacle  Obstacle
	Reason    string // description of the obstacle, for people

	newFolder string // topmost folder of the path that the turn created
	from      string // current path of its content, if the turn moved it
	now       checkpoint.Snapshot
	data      []byte // content of Want
}

// Done reports whether the file already has the wanted state.
func (s Step) Done() bool { return checkpoint.Matches(s.Want, s.Now) }

// Plan is what an undo would do.
type Plan struct {
	Steps []Step // sorted by path
	store checkpoint.Store
	// begun has the files that an interrupted undo of the same turns has already restored, with their states before it. This undo
	// records them as its own, so that undoing it restores all files.
	begun map[string]event.FileState
}

// Make inspects the files and plans how to restore them.
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
			// A folder that the turn created is removed with the last of its files, including files that were added later.
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
		data, err := checkpoint.Stored(ctx, p.store.Artifact, s.Want)
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

// resume takes over the files that interrupted undos have already restored.
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

// Obstacles returns the steps that have an obstacle.
func (p *Plan) Obstacles() []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Obstacle != None {
			out = append(out, s)
		}
	}
	return out
}

// Selected returns the steps that Run executes; with force this includes the steps whose obstacle can be overridden.
func (p *Plan) Selected(force bool) []Step {
	var out []Step
	for _, s := range p.Steps {
		if !s.Done() && (s.Obstacle == None || force && s.Obstacle.CanForce()) {
			out = append(out, s)
		}
	}
	return out
}

// Net returns the changes that Run makes, for a preview.
func (p *Plan) Net(force bool) []checkpoint.File {
	var out []checkpoint.File
	for _, s := range p.Selected(force) {
		out = append(out, checkpoint.File{Path: s.Path, From: s.from, Before: s.Now, After: s.Want})
	}
	return out
}

// Content returns content that a step has loaded, for a preview. The current content of a file is not in the store yet.
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
