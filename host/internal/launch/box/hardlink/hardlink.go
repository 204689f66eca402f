// Package hardlink finds what to keep read-only because a file has other names, outside of the writable folders or in what is read-only.
//
// It owns: counting names, choosing between files and whole folders so that few mounts are needed. It must not know: how a path is kept
// read-only.
//
// Start with [Finder.Find].
package hardlink

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// A file may have several names. One that has a name outside of the writable roots, or in what is read-only in them, would be written
// there too, so its other names are read-only: each for itself, or where there are a great many (package managers link whole trees into a
// folder from a store of their own) the folders that hold them.

// maxLinked is how many mounts are spent on this. 32 make a box 4 ms slower; 256 would make it a tenth of a second, since bubblewrap
// reads the list of all mounts for each.
const maxLinked = 32

// foreign are the files with names beyond what may be written, by the folders that their names inside lie in. A file is there once for
// each of them.
func foreign(p *autorun.Found, held holding) map[string][]fspath.Inode {
	var linked []tree.Linked
	for _, g := range p.Trees {
		for _, f := range g.Linked() {
			if !p.Covered(f.Path) && !held.covers(f.Path) {
				linked = append(linked, f)
			}
		}
	}
	if len(linked) == 0 {
		return nil
	}
	seen := apart(p, held)
	for _, f := range linked {
		for _, l := range f.Links {
			seen[fspath.Inode{Dev: f.Dev, Ino: l.Ino}]++
		}
	}
	out := map[string][]fspath.Inode{}
	for _, f := range linked {
		for _, l := range f.Links {
			if of := (fspath.Inode{Dev: f.Dev, Ino: l.Ino}); l.Count == tree.MaxCount || seen[of] < int64(l.Count) {
				out[f.Path] = append(out[f.Path], of)
			}
		}
	}
	return out
}

// apart are the names that count otherwise than the folders that they lie in: single ones that are read-only, and single ones in what is
// read-only that were opened.
func apart(p *autorun.Found, held holding) map[fspath.Inode]int64 {
	out := map[fspath.Inode]int64{}
	count := func(path string, by int64) {
		if id, links, ok := fspath.LinkCount(path); ok && links > 1 && fspath.IsRegular(path) {
			out[id.Inode()] += by
		}
	}
	for path := range held.paths {
		if dir := filepath.Dir(path); !p.Covered(dir) && !held.covers(dir) && !held.opened(path) {
			count(path, -1)
		}
	}
	for _, path := range held.open {
		if dir := filepath.Dir(path); !p.Covered(dir) && held.covers(dir) {
			count(path, 1)
		}
	}
	return out
}

// namesOf are the names in a folder of some files, but for those that are held.
func namesOf(dir string, files []fspath.Inode, held holding) (map[string]fspath.Inode, error) {
	entries, err := os.ReadDir(dir)
	if fspath.IsNotExist(err) {
		return nil, deny.ErrMoved
	}
	if err != nil {
		return nil, fmt.Errorf("names of files in %s can't be found: %w", dir, err)
	}
	out := map[string]fspath.Inode{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if held.paths[path] && !held.opened(path) || !e.Type().IsRegular() {
			continue
		}
		if id, links, ok := fspath.LinkCount(path); ok && links > 1 && slices.Contains(files, id.Inode()) {
			out[path] = id.Inode()
		}
	}
	return out, nil
}

// holding is what of the roots is read-only.
type holding struct {
	paths map[string]bool
	roots []string // which may lie in it
	open  []string // but for these
	key   string   // changes with it
}

func newHolding(readOnly, roots, opened []string, found *autorun.Found) holding {
	if !slices.ContainsFunc(found.Trees, (*tree.Tree).HasLinks) {
		return holding{}
	}
	list := slices.Concat(readOnly, found.ReadOnly)
	slices.Sort(list)
	h := holding{paths: make(map[string]bool, len(list)), roots: roots, open: opened, key: fmt.Sprintf("%q %q", list, opened)}
	for _, p := range list {
		h.paths[p] = true
	}
	return h
}

// covers reports whether a folder is read-only, or lies in one that is.
func (h holding) covers(dir string) bool {
	for at := dir; len(h.paths) > 0 && at != filepath.Dir(at); at = filepath.Dir(at) {
		switch {
		case h.paths[at]:
			return true
		case slices.Contains(h.roots, at):
			return false
		}
	}
	return false
}

func (h holding) opened(path string) bool {
	return slices.Contains(h.open, path) || fspath.BelowAny(path, h.open)
}

// Finder is what is kept read-only for the sake of names that lie elsewhere as well. It is worked out anew when one of them may have
// changed: there may be as many as there are files.
type Finder struct {
	mu    sync.Mutex
	of    string
	names int
	keep  map[string]fspath.Inode // a path, with the file that it is; zero: a folder
	err   error
}

func (n *Finder) narrowed(roots []string, found *autorun.Found, held holding) (names int, keep map[string]fspath.Inode, err error) {
	of := fmt.Sprintf("%q %s %s", roots, found.LinkVersion, held.key)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of != of {
		foreign := foreign(found, held)
		n.names, n.keep = 0, map[string]fspath.Inode{}
		counts := make(map[string]int, len(foreign))
		for dir, files := range foreign {
			counts[dir] = len(files)
			n.names += len(files)
		}
		folders, single, err := narrow(roots, counts)
		for _, p := range folders {
			n.keep[p] = fspath.Inode{}
		}
		for _, dir := range single {
			names, failed := namesOf(dir, foreign[dir], held)
			if failed != nil {
				return n.names, nil, failed
			}
			maps.Copy(n.keep, names)
		}
		n.of, n.err = of, err
	}
	return n.names, n.keep, n.err
}

// branch is a folder with foreign names, or above some.
type branch struct {
	path  string
	names int       // in the folder itself
	below []*branch // by their order of appearance
	index map[string]*branch
}

// narrow finds what to keep read-only for the sake of foreign names, which are counted by their folders: as little as maxLinked mounts can
// do. single are folders of which the names themselves are kept. Roots and what lies above them stay as they are.
func narrow(roots []string, names map[string]int) (folders, single []string, err error) {
	top := &branch{path: "/"}
	for _, p := range slices.Sorted(maps.Keys(names)) {
		at := top
		for part := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
			next := at.index[part]
			if next == nil {
				next = &branch{path: filepath.Join(at.path, part)}
				if at.index == nil {
					at.index = map[string]*branch{}
				}
				at.index[part] = next
				at.below = append(at.below, next)
			}
			at = next
		}
		at.names = names[p]
	}
	for queue, count := []*branch{top}, 1; len(queue) > 0; queue = queue[1:] {
		b := queue[0]
		must := slices.Contains(roots, b.path) || slices.ContainsFunc(roots, func(r string) bool { return b.path == "/" || fspath.Below(r, b.path) })
		more := count - 1 + len(b.below) + b.names
		switch {
		case more > maxLinked && !must:
			folders = append(folders, b.path)
		case more > maxLinked:
			return nil, nil, fmt.Errorf("%s holds more than %d files that also have names outside of it (hard links), through which commands could change those; keep them in folders of their own, or copy them", b.path, maxLinked)
		default:
			count = more
			queue = append(queue, b.below...)
			if b.names > 0 {
				single = append(single, b.path)
			}
		}
	}
	return folders, single, nil
}

// Find are what keeps files with names outside as they are: what is read-only, and what is not even read. errMoved says that it has
// to be looked again.
func (n *Finder) Find(roots, readOnly, opened []string, found *autorun.Found, inodes func() map[fspath.Inode]uint64) (hold, hide []deny.Entry, err error) {
	held := newHolding(readOnly, roots, opened, found)
	names, keep, narrowErr := n.narrowed(roots, found, held)
	if names == 0 && !found.Moved {
		return nil, nil, nil
	}
	keys := inodes()
	maps.DeleteFunc(keys, func(_ fspath.Inode, links uint64) bool { return links < 2 })
	if found.Moved && len(keys) > 0 {
		return nil, nil, deny.ErrMoved // one of those names may be where nobody has looked
	}
	if len(keys) > 0 {
		for dir, files := range foreign(found, holding{}) { // what is read-only is read
			files = slices.DeleteFunc(files, func(f fspath.Inode) bool { return keys[f] == 0 })
			if len(files) == 0 {
				continue
			}
			names, err := namesOf(dir, files, holding{})
			if err != nil {
				return nil, nil, err
			}
			for p, f := range names {
				d, err := locate(p, f)
				if err != nil {
					return nil, nil, err
				}
				hide = append(hide, d)
			}
		}
	}
	slices.SortFunc(hide, func(a, b deny.Entry) int { return strings.Compare(a.Path, b.Path) })
	if narrowErr != nil {
		return nil, nil, narrowErr
	}
	for _, p := range slices.Sorted(maps.Keys(keep)) {
		if fspath.ContainsOpened(p, opened) || slices.ContainsFunc(hide, func(d deny.Entry) bool { return d.Path == p }) {
			continue
		}
		d, err := locate(p, keep[p])
		if err != nil {
			return nil, nil, err
		}
		hold = append(hold, d)
	}
	return hold, hide, nil
}

// locate finds out in which folder a path lies. f is the file that it has to be; zero: any.
func locate(path string, f fspath.Inode) (deny.Entry, error) {
	in, id, mode, err := fspath.LstatIn(path)
	switch {
	case fspath.IsNotExist(err) || err == nil && f != (fspath.Inode{}) && f != (id.Inode()):
		return deny.Entry{}, deny.ErrMoved
	case err != nil:
		return deny.Entry{}, fmt.Errorf("%s can't be kept as it is: %w", path, err)
	}
	return deny.Entry{Path: path, Folder: mode.IsDir(), Parent: in, ID: id}, nil
}
