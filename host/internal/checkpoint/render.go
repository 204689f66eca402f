package checkpoint

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/diff"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// maxDiffBytes limits the diff in a turn's event, which is published after each change and displayed by every front end. Files whose
// part does not fit are counted; [Renderer] renders them all.
const maxDiffBytes = 1 << 20

// Part is the part of a diff for one file.
type Part struct {
	event.DiffedFile
	Diff    string
	Unknown bool // the content is not available, so this part can't be applied
}

// Renderer renders changes of files as parts of a diff. It caches the parts, so that updating a turn's diff costs no more than its
// last change. It is not safe for concurrent use.
type Renderer struct {
	Root string // paths are displayed relative to it
	// Content reads the content of a state. If it fails, the diff only says that the file differs.
	Content func(path string, s event.FileState) (string, error)

	parts map[string]part // by path
}

// part is a rendered part, with the change that it shows.
type part struct {
	from          string
	before, after event.FileState
	Part
}

// Render returns the parts of a diff, sorted by displayed path.
func (r *Renderer) Render(net []File) []Part {
	moved, before := map[string]bool{}, map[string]event.FileState{}
	for _, f := range net {
		moved[f.From] = true
		before[f.Path] = f.Before
	}
	var out []Part
	for _, f := range net {
		if moved[f.Path] && f.After.Kind == event.FileAbsent {
			continue // the part of the new path shows the move
		}
		p := part{from: f.From, before: f.Before, after: f.After}
		if f.From != "" {
			p.before = before[f.From]
		}
		if old, ok := r.parts[f.Path]; ok && old.from == p.from && old.before == p.before && old.after == p.after {
			p = old
		} else {
			p.Part = r.part(f.Path, p)
			if r.parts == nil {
				r.parts = map[string]part{}
			}
			r.parts[f.Path] = p
		}
		if p.Diff != "" { // it is empty if only permissions changed that git ignores
			out = append(out, p.Part)
		}
	}
	slices.SortStableFunc(out, func(a, b Part) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func (r *Renderer) part(path string, p part) Part {
	d := diff.File{Name: Shown(r.Root, path), After: r.version(path, p.after)}
	if p.from != "" {
		d.From = Shown(r.Root, p.from)
		d.Before = r.version(p.from, p.before)
	} else {
		d.Before = r.version(path, p.before)
	}
	text := diff.Of(d)
	return Part{event.DiffedFile{
		Path: d.Name, Kind: kindOf(d), MovedFrom: d.From, Added: text.Added, Removed: text.Removed, Binary: text.Binary || text.Unknown,
	}, text.Diff, text.Unknown}
}

func kindOf(d diff.File) string {
	switch {
	case d.Before.Mode == diff.Absent:
		return "add"
	case d.After.Mode == diff.Absent:
		return "delete"
	}
	return "update"
}

func (r *Renderer) version(path string, s event.FileState) diff.Version {
	switch s.Kind {
	case event.FileAbsent:
		return diff.Version{}
	case event.FileLink:
		return diff.Version{Mode: diff.Link, Data: s.Target}
	case event.FileRegular:
		v := diff.Version{Mode: diff.Regular}
		if s.Mode&0o100 != 0 {
			v.Mode = diff.Executable
		}
		var err error
		if v.Data, err = r.Content(path, s); err != nil {
			v.Data, v.Unknown = "", true
		}
		return v
	}
	return diff.Version{Mode: diff.Regular, Unknown: true}
}

var errNotKept = errors.New("its content was not stored")

// Stored reads the content of a state from the store, with [Store.Artifact] or the like.
func Stored(ctx context.Context, artifact func(ctx context.Context, digest string) (io.ReadCloser, error), s event.FileState) (string, error) {
	if !s.Kept {
		return "", errNotKept
	}
	r, err := artifact(ctx, s.SHA256)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b strings.Builder
	b.Grow(int(s.Size))
	_, err = io.Copy(&b, r)
	return b.String(), err
}

// Diff returns the net diff of the turn so far, or nil if there is none and none was published before.
func (t *Tracker) Diff(ctx context.Context) *event.TurnDiff {
	t.mu.Lock()
	net := t.mu.changes.Net()
	told := t.mu.told
	t.mu.told = told || len(net) > 0
	t.mu.Unlock()
	if len(net) == 0 && !told {
		return nil
	}
	t.render.Lock()
	defer t.render.Unlock()
	t.render.Content = func(_ string, s event.FileState) (string, error) { return Stored(ctx, t.store.Artifact, s) }
	var d event.TurnDiff
	var b strings.Builder
	for _, p := range t.render.Render(net) {
		d.Files = append(d.Files, p.DiffedFile)
		if b.Len()+len(p.Diff) > maxDiffBytes {
			d.Omitted++
			continue
		}
		b.WriteString(p.Diff)
	}
	d.Diff = b.String()
	return &d
}
