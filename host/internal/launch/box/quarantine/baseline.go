package quarantine

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A command can make files of the user's into parts without changing them: by a HEAD beside them, by a link to them, by a new name of the
// folder that they lie in. Such files are not the command's, and some of them are denied. So what the command has added is moved aside
// instead, and they stay as they are.

// baseline is what was there before the oldest command that may have made what is found.
type baseline struct {
	known    map[fspath.Identity]bool // the parts
	began    time.Time                // zero: nobody knows
	denied   Denied
	newMarks map[string][]string // new ones by folder, as they were before any of them was moved aside
}

// before reports whether a time was before the oldest command, as far as the coarse clock of files tells.
func (w baseline) before(nanoseconds int64) bool {
	return !w.began.IsZero() && nanoseconds < w.began.Add(-fspath.ClockSlack).UnixNano()
}

// predates reports whether a file or folder was there before, under whatever name.
func (w baseline) predates(path string, id fspath.Identity) bool {
	if made := fspath.BirthTime(path); made != 0 {
		return w.before(made)
	}
	return w.before(id.Changed)
}

// culprit returns what is to be moved aside for the sake of a part: what has made it one, if it was there before, else itself. nil:
// nothing is. done are paths that were dealt with.
func (w baseline) culprit(p autorun.File, roots []string, done map[string]bool) *autorun.File {
	path := p.AbsPath()
	id, _, ok := fspath.Lstat(path)
	if !ok {
		return &p
	}
	denied, untouched := w.denied.covers(path), w.before(id.Changed)
	p.Older = w.predates(path, id)
	if !denied && !untouched && !p.Older {
		return &p
	}
	var candidates []string
	for _, dir := range p.Origin.Repositories {
		if id, _, ok := fspath.Lstat(dir); ok && !w.known[fspath.Persistent(dir, id)] && w.predates(dir, id) {
			candidates = append(candidates, w.marksIn(dir)...)
		}
	}
	candidates = append(candidates, p.Origin.Via...)
	candidates = append(candidates, fspath.LinksOn(p.Origin.Named)...)
	if p.Origin.Top != "" && (untouched || denied) {
		for at := filepath.Dir(path); at == p.Origin.Top || fspath.Below(at, p.Origin.Top); at = filepath.Dir(at) {
			candidates = append(candidates, at)
		}
	}
	for _, c := range candidates {
		if done[c] {
			return nil
		}
		id, _, ok := fspath.Lstat(c)
		if !ok || w.before(id.Changed) || c == path || w.denied.covers(c) || w.denied.below(c) {
			continue
		}
		for _, root := range fspath.Outermost(roots) {
			if rel, err := filepath.Rel(root, c); err == nil && fspath.Below(c, root) {
				return &autorun.File{Root: root, Path: rel, Kind: autorun.KindCause, ID: id, Older: w.predates(c, id)}
			}
		}
	}
	if denied {
		return nil // no box could write it
	}
	return &p
}

// marksIn are the marks in a folder that were not in it before: those that were made since first.
func (w baseline) marksIn(dir string) []string {
	if found, ok := w.newMarks[dir]; ok {
		return found
	}
	entries, _ := os.ReadDir(dir)
	var out, renamed []string
	for _, name := range autorun.RepositoryMarks {
		for _, e := range entries {
			if strings.ToLower(e.Name()) != name {
				continue
			}
			path := filepath.Join(dir, e.Name())
			switch id, _, ok := fspath.Lstat(path); {
			case !ok || w.before(id.Changed):
			case w.predates(path, id):
				renamed = append(renamed, path)
			default:
				out = append(out, path)
			}
		}
	}
	w.newMarks[dir] = append(out, renamed...)
	return w.newMarks[dir]
}
