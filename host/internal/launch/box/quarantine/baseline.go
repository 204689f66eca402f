package quarantine

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A command can make the user's files matter without changing them: by creating a HEAD next to them, a link to them, or by renaming
// the folder that they are in. Such files are not the command's, and some of them are denied to it. They stay as they are; what the
// command has added is moved aside instead.

// baseline is what was there before the oldest command that may have created what is found.
type baseline struct {
	known    map[fspath.Identity]bool // the files that mattered
	began    time.Time                // zero: unknown
	denied   Denied
	newMarks map[string][]string // by folder, before any was moved aside
}

// before reports whether a time is before the oldest command, with a margin for the coarse clock of files.
func (w baseline) before(nanoseconds int64) bool {
	return !w.began.IsZero() && nanoseconds < w.began.Add(-fspath.ClockSlack).UnixNano()
}

// predates reports whether a file existed before, under whatever name.
func (w baseline) predates(path string, id fspath.Identity) bool {
	if made := fspath.BirthTime(path); made != 0 {
		return w.before(made)
	}
	return w.before(id.Changed)
}

// culprit returns what to move aside because of p: what has made p matter if p itself existed before, otherwise p; or nil if
// nothing. done are the paths that were dealt with.
func (w baseline) culprit(p autorun.File, roots []string, done map[string]bool) *autorun.File {
	path := p.AbsPath()
	id, _, ok := fspath.Lstat(path)
	if !ok {
		return &p
	}
	denied, untouched := w.denied.covers(path), w.before(id.Changed)
	p.Older = w.predates(path, id)
	// The command has created p itself.
	if !denied && !untouched && !p.Older {
		return &p
	}
	// p is older or could not be written. What may have made it matter: new marks of a repository, files and links that lead to p,
	// and new names of the folders above it.
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
		// A candidate that is unchanged is not the cause, and nothing that is denied is moved.
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
		return nil // no sandbox could have written it
	}
	return &p
}

// marksIn returns a folder's marks that were not in it before, first those that were created since and then those that were
// renamed.
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
