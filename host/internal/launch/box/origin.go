package box

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A command can make files of the user's into parts without changing them: by a HEAD beside them, by a link to them, by a new name of the
// folder that they lie in. Such files are not the command's, and some of them are denied. So what the command has added is moved aside
// instead, and they stay as they are.

// origin is what makes a path a part.
type origin struct {
	repositories []string // the folders of repositories: the marks in them do
	via          []string // files and links that lead there
	named        string   // the path as settings name it, on which links may lie
	top          string   // the folders between this one and the part do; empty: none
}

// past is what was there before the oldest command that may have made what is found.
type past struct {
	known map[fspath.Identity]bool // the parts
	began time.Time                // zero: nobody knows
	kept  kept
	marks map[string][]string // new ones by folder, as they were before any of them was moved aside
}

// kept are files and folders that the user's settings deny, with their paths.
type kept map[fspath.Identity]string

// keptIn are those of a view.
func keptIn(v *view) kept {
	out := kept{}
	for _, d := range slices.Concat(v.denied, v.kept) {
		out[fspath.Persistent(d.Path, d.ID)] = d.Path
	}
	return out
}

// covers reports whether a path is denied, or lies in what is.
func (k kept) covers(path string) bool {
	for at := path; len(k) > 0 && at != filepath.Dir(at); at = filepath.Dir(at) {
		if id, _, ok := fspath.Lstat(at); ok {
			if _, ok := k[fspath.Persistent(at, id)]; ok {
				return true
			}
		}
	}
	return false
}

// below reports whether something denied lies in a folder.
func (k kept) below(dir string) bool {
	for p := range maps.Values(k) {
		if fspath.Below(p, dir) {
			return true
		}
	}
	return false
}

// before reports whether a time was before the oldest command, as far as the coarse clock of files tells.
func (w past) before(nanoseconds int64) bool {
	return !w.began.IsZero() && nanoseconds < w.began.Add(-fspath.ClockSlack).UnixNano()
}

// predates reports whether a file or folder was there before, under whatever name.
func (w past) predates(path string, id fspath.Identity) bool {
	if made := fspath.BirthTime(path); made != 0 {
		return w.before(made)
	}
	return w.before(id.Changed)
}

// instead returns what is to be moved aside for the sake of a part: what has made it one, if it was there before, else itself. nil:
// nothing is. done are paths that were dealt with.
func (w past) instead(p part, roots []string, done map[string]bool) *part {
	path := p.full()
	id, _, ok := fspath.Lstat(path)
	if !ok {
		return &p
	}
	denied, untouched := w.kept.covers(path), w.before(id.Changed)
	p.mine = w.predates(path, id)
	if !denied && !untouched && !p.mine {
		return &p
	}
	var candidates []string
	for _, dir := range p.made.repositories {
		if id, _, ok := fspath.Lstat(dir); ok && !w.known[fspath.Persistent(dir, id)] && w.predates(dir, id) {
			candidates = append(candidates, w.newMarks(dir)...)
		}
	}
	candidates = append(candidates, p.made.via...)
	candidates = append(candidates, fspath.LinksOn(p.made.named)...)
	if p.made.top != "" && (untouched || denied) {
		for at := filepath.Dir(path); at == p.made.top || fspath.Below(at, p.made.top); at = filepath.Dir(at) {
			candidates = append(candidates, at)
		}
	}
	for _, c := range candidates {
		if done[c] {
			return nil
		}
		id, _, ok := fspath.Lstat(c)
		if !ok || w.before(id.Changed) || c == path || w.kept.covers(c) || w.kept.below(c) {
			continue
		}
		for _, root := range fspath.Outermost(roots) {
			if rel, err := filepath.Rel(root, c); err == nil && fspath.Below(c, root) {
				return &part{root: root, path: rel, kind: kindMade, id: id, mine: w.predates(c, id)}
			}
		}
	}
	if denied {
		return nil // no box could write it
	}
	return &p
}

// newMarks are the marks in a folder that were not in it before: those that were made since first.
func (w past) newMarks(dir string) []string {
	if found, ok := w.marks[dir]; ok {
		return found
	}
	entries, _ := os.ReadDir(dir)
	var out, renamed []string
	for _, name := range marks {
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
	w.marks[dir] = append(out, renamed...)
	return w.marks[dir]
}
