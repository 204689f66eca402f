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

// A file that also has a name outside of the writable roots, or in a read-only part of them, would be changed there by writing it
// through its name inside. So its names inside are kept read-only: one by one, or by whole folders where there are very many, as
// package managers create by linking trees from a store.

// maxLinked bounds the mounts for that. 32 make starting a sandbox 4 ms slower; 256 would cost a tenth of a second, because
// bubblewrap reads the list of all mounts for each.
const maxLinked = 32

// foreign returns, by folder, the files with names where they can't be written. A file is listed once for each name.
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

// apart returns by how much the number of a file's writable names differs from that of its names in writable folders: single names
// may be read-only in a writable folder, or opened in a read-only one.
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

// namesOf returns the names in a folder of some files, without names that are read-only already.
func namesOf(dir string, files []fspath.Inode, held holding) (map[string]fspath.Inode, error) {
	entries, err := os.ReadDir(dir)
	if fspath.IsNotExist(err) {
		return nil, deny.ErrMoved
	}
	if err != nil {
		return nil, fmt.Errorf("search for hard links in %s: %w", dir, err)
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

// holding is what is read-only in the roots.
type holding struct {
	paths map[string]bool
	roots []string // roots may be inside a read-only folder
	open  []string // paths that are writable all the same
	key   string   // changes with the other fields
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

// covers reports whether a folder is read-only or inside one that is.
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

// Finder finds what to keep read-only, and caches the result until a name may have changed: there may be as many names as files.
type Finder struct {
	mu    sync.Mutex
	of    string
	names int
	keep  map[string]fspath.Inode // by path, the file that it must be; zero: a folder
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

// branch is a folder that contains foreign names, or is above one that does.
type branch struct {
	path  string
	names int       // names in the folder itself
	below []*branch // in order of appearance
	index map[string]*branch
}

// narrow chooses what to keep read-only for foreign names, given their number by folder, with at most maxLinked mounts. folders are
// kept as a whole, of single only the names. Roots and folders above them are never kept as a whole.
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
	// Go down from the top, breadth first, as long as the mounts suffice: replacing a folder by its subfolders and names costs
	// more mounts and leaves more writable.
	for queue, count := []*branch{top}, 1; len(queue) > 0; queue = queue[1:] {
		b := queue[0]
		must := slices.Contains(roots, b.path) || slices.ContainsFunc(roots, func(r string) bool { return b.path == "/" || fspath.Below(r, b.path) })
		more := count - 1 + len(b.below) + b.names
		switch {
		case more > maxLinked && !must:
			folders = append(folders, b.path)
		case more > maxLinked:
			return nil, nil, fmt.Errorf("%s contains more than %d files with other names outside of it (hard links), which commands could change through them; move the files to folders of their own, or copy them", b.path, maxLinked)
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

// Find returns what to keep read-only, and what to hide because it is another name of a key. After [deny.ErrMoved] the caller
// searches again.
func (n *Finder) Find(roots, readOnly, opened []string, found *autorun.Found, inodes func() map[fspath.Inode]uint64) (hold, hide []deny.Entry, err error) {
	held := newHolding(readOnly, roots, opened, found)
	names, keep, narrowErr := n.narrowed(roots, found, held)
	if names == 0 && !found.Moved {
		return nil, nil, nil
	}
	keys := inodes()
	maps.DeleteFunc(keys, func(_ fspath.Inode, links uint64) bool { return links < 2 })
	if found.Moved && len(keys) > 0 {
		return nil, nil, deny.ErrMoved // a name of a key may be where the search has not been
	}
	if len(keys) > 0 {
		for dir, files := range foreign(found, holding{}) { // a read-only name of a key can still be read
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

// locate returns the entry for a path. f is the file that must be there; zero: any.
func locate(path string, f fspath.Inode) (deny.Entry, error) {
	in, id, mode, err := fspath.LstatIn(path)
	switch {
	case fspath.IsNotExist(err) || err == nil && f != (fspath.Inode{}) && f != (id.Inode()):
		return deny.Entry{}, deny.ErrMoved
	case err != nil:
		return deny.Entry{}, fmt.Errorf("%s can't be kept read-only: %w", path, err)
	}
	return deny.Entry{Path: path, Folder: mode.IsDir(), Parent: in, ID: id}, nil
}
