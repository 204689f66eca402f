// Package deny finds the files and folders that deny patterns match.
//
// Mounts cover files, not patterns, so the matches have to be found before a sandbox is made. What can't be found out is an error: a
// sandbox without a denial that the user asked for must not start.
//
// It owns: matching patterns against the file system, what symbolic and hard links lead to, the cache of folders that have not changed.
// It must not know: who denies what, how a denial is enforced.
//
// Start with [Finder.Find].
package deny

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// maxDenied bounds the entries of one sandbox. Each is a mount, and bubblewrap accepts 9,000 arguments.
const maxDenied = 2000

// maxTargets bounds the targets of symbolic links that are remembered for a pattern. Links of the user come first, before any
// command runs; a command that creates matching links must not be able to have everything denied.
const maxTargets = 256

// Entry is an existing file or folder that is denied, or kept from being written.
type Entry struct {
	Path       string          // resolved
	Folder     bool            // false: a file of any other type
	Pinned     []string        // folders above it that must not be renamed, or another command would find it under a new path
	Parent, ID fspath.Identity // the identities of the folder that it is in, and of itself
}

// ErrMoved is returned if folders were moved while they were searched. The caller may try again.
var ErrMoved = errors.New("folders are being moved while denied and protected files are searched; try again, and end the process that moves them")

// Attempts is how often a search is repeated after [ErrMoved].
const Attempts = 8

// Finder finds what patterns match, and caches folders that have not changed. Its methods may be called concurrently.
type Finder struct {
	mu      sync.Mutex
	trees   map[string]*leaf           // by pattern
	targets map[string]map[string]bool // by pattern, the targets of symbolic links that it has matched; a command may have removed the link
}

// leaf is a folder that a pattern has to be matched in.
type leaf struct {
	path    string
	id      fspath.Identity
	state   glob.State
	gone    bool     // it is not a folder any more
	hidden  bool     // the pattern matches the folder itself, so it is only searched for a root inside it
	matched []string // paths of entries that match
	below   []*leaf  // folders in which the match continues
}

// Find returns what patterns match now. missing are paths that do not exist but could be created, because they are inside one of
// the writable roots. What was moved aside from such a path is denied under its new name as well.
func (f *Finder) Find(patterns, roots []string) (list []Entry, missing []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range Attempts {
		if list, missing, err = f.look(patterns, roots); !errors.Is(err, ErrMoved) {
			break
		}
	}
	return list, missing, err
}

// look is one attempt of Find.
func (f *Finder) look(patterns, roots []string) (list []Entry, missing []string, err error) {
	out := make(map[string]Entry)
	if f.trees == nil {
		f.trees = map[string]*leaf{}
	}
	maps.DeleteFunc(f.trees, func(text string, _ *leaf) bool { return !slices.Contains(patterns, text) })
	for _, text := range patterns {
		p, err := glob.Parse(text)
		if err != nil {
			return nil, nil, fmt.Errorf("search for denied files: %w", err)
		}
		gap, err := straight(p.Base(), roots)
		if err != nil {
			return nil, nil, err
		}
		// A pattern without wildcards is one path. It may be missing, and then appear while a command runs.
		if path, ok := p.Path(); ok {
			if gap == "" {
				if err := Add(fspath.Resolve(path), true, roots, out); err != nil {
					return nil, nil, err
				}
			} else if at := fspath.ResolveParent(gap); fspath.BelowAny(at, roots) {
				path = at + strings.TrimPrefix(filepath.Clean(path), gap)
				missing = append(missing, path)
			}
			// A command's file at that path was moved aside. It may be a copy of what is denied, so it is denied as well.
			for _, p := range fspath.Quarantined(path) {
				if err := Add(p, true, roots, out); err != nil {
					return nil, nil, err
				}
			}
			continue
		}
		t := f.trees[text]
		if t == nil || t.path != fspath.Resolve(p.Base()) {
			t = &leaf{path: fspath.Resolve(p.Base()), state: p.Start()}
			f.trees[text] = t
		}
		seen := 0
		if err := t.walk(p, &seen, func(path string) error { return f.matched(p, path, roots, out) }, roots); err != nil {
			return nil, nil, err
		}
		// Targets stay denied after a command has removed the link that led to them.
		for to := range f.targets[text] {
			if err := Add(to, true, roots, out); errors.Is(err, ErrMoved) {
				delete(f.targets[text], to)
			} else if err != nil {
				return nil, nil, err
			}
		}
	}
	if len(out) > maxDenied {
		return nil, nil, fmt.Errorf("%d files and folders are denied here, which is more than the %d that a sandbox can hide; deny folders instead of the files in them", len(out), maxDenied)
	}
	for _, d := range out {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return list, missing, nil
}

// straight returns an error if path leads through a symbolic link in one of roots: a command could replace the link, and the next
// one would find the file unprotected. missing is the first element that does not exist, or "".
func straight(path string, roots []string) (missing string, err error) {
	at := "/"
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case fspath.IsNotExist(err):
			return at, nil
		case errors.Is(err, fs.ErrPermission):
			return "", nil // the sandbox's processes can't get there either
		case err != nil:
			return "", fmt.Errorf("%s can't be denied: %w", path, err)
		case info.Mode()&fs.ModeSymlink != 0:
			if parent := fspath.Resolve(filepath.Dir(at)); slices.Contains(roots, parent) || fspath.BelowAny(parent, roots) {
				return "", fmt.Errorf("%s can't be denied: %s on the way to it is a symbolic link that may be changed; deny the place that it leads to", path, at)
			}
		}
	}
	return "", nil
}

// matched adds a path that a pattern matches. For a symbolic link its target is denied, even after the link is gone, and the
// folders above the target are pinned.
func (f *Finder) matched(p glob.Pattern, path string, roots []string, out map[string]Entry) error {
	to, err := filepath.EvalSymlinks(path)
	switch {
	case fspath.IsNotExist(err) && !fspath.Exists(path):
		return ErrMoved
	case fspath.IsNotExist(err) || errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil && strings.Contains(err.Error(), "too many links"):
		return nil // a cycle of links leads nowhere
	case err != nil:
		return fmt.Errorf("%s can't be denied: %w", path, err)
	case to != fspath.ResolveParent(path) && slices.ContainsFunc(roots, func(r string) bool { return r == to || fspath.Below(r, to) }):
		return fmt.Errorf("%s can't be denied: it leads to %s, in which commands work; remove the link", path, to)
	}
	if to != fspath.ResolveParent(path) {
		if f.targets == nil {
			f.targets = map[string]map[string]bool{}
		}
		known := f.targets[p.String()]
		if known == nil {
			known = map[string]bool{}
			f.targets[p.String()] = known
		}
		if len(known) < maxTargets {
			known[to] = true
		}
	}
	return Add(to, !p.AnyFolder(), roots, out)
}

// Add adds an existing path to out. named says that the folders above it are to be pinned.
func Add(path string, named bool, roots []string, out map[string]Entry) error {
	in, id, mode, err := fspath.LstatIn(path)
	switch {
	case fspath.IsNotExist(err):
		return ErrMoved
	case errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return fmt.Errorf("%s can't be denied: %w", path, err)
	}
	d := Entry{Path: path, Folder: mode.IsDir(), Parent: in, ID: id}
	for dir := filepath.Dir(path); named && fspath.BelowAny(dir, roots); dir = filepath.Dir(dir) {
		if slices.Contains(roots, dir) {
			break
		}
		d.Pinned = append(d.Pinned, dir)
	}
	if other, ok := out[path]; !ok || len(other.Pinned) < len(d.Pinned) {
		out[path] = d
	}
	return nil
}

// maxFolders bounds the folders that are searched for a pattern: about a quarter of a second.
const maxFolders = 50_000

// walk matches the pattern in a folder and the folders below it, and calls found for each match.
func (t *leaf) walk(p glob.Pattern, seen *int, found func(string) error, roots []string) error {
	if *seen++; *seen > maxFolders {
		return fmt.Errorf("pattern %q: there are more than %d folders to search below %s; begin the pattern with a narrower one", p, maxFolders, p.Base())
	}
	if err := t.look(p); err != nil {
		return err
	}
	for _, path := range t.matched {
		if err := found(path); err != nil {
			return err
		}
	}
	for _, b := range t.below {
		if b.hidden && !slices.ContainsFunc(roots, func(r string) bool { return fspath.Below(r, b.path) }) {
			continue
		}
		if err := b.walk(p, seen, found, roots); err != nil {
			return err
		}
		if b.gone {
			return ErrMoved // it existed a moment ago
		}
	}
	return nil
}

// look reads the folder again if it has changed.
func (t *leaf) look(p glob.Pattern) error {
	id, mode, ok := fspath.Lstat(t.path)
	if t.gone = !ok || !mode.IsDir(); t.gone {
		t.id, t.matched, t.below = fspath.Identity{}, nil, nil
		return nil
	}
	if t.id == id {
		return nil
	}
	now := time.Now()
	entries, err := os.ReadDir(t.path)
	switch {
	case fspath.IsNotExist(err) || errors.Is(err, fs.ErrPermission): // what we can't read the sandbox can't read either
		t.id, t.matched, t.below, t.gone = fspath.Identity{}, nil, nil, fspath.IsNotExist(err)
		return nil
	case err != nil:
		return fmt.Errorf("pattern %q: %w", p, err)
	}
	before := make(map[string]*leaf, len(t.below))
	for _, b := range t.below {
		before[b.path] = b
	}
	t.id, t.matched, t.below = id, nil, nil
	if now.Sub(time.Unix(0, id.Changed)) < fspath.ClockSlack {
		t.id = fspath.Identity{} // too recent to trust: read it again next time
	}
	for _, e := range entries {
		next, hit := p.Step(t.state, e.Name())
		path := filepath.Join(t.path, e.Name())
		if hit {
			t.matched = append(t.matched, path)
		}
		if len(next) == 0 || !e.IsDir() {
			continue
		}
		b := before[path]
		if b == nil {
			b = &leaf{path: path}
		}
		b.state, b.hidden = next, hit
		t.below = append(t.below, b)
	}
	return nil
}

// HardLinks returns the other names, below roots, of denied files: a pattern does not match them.
func HardLinks(denied []Entry, roots []string) ([]Entry, error) {
	type inode struct{ dev, ino uint64 }
	linked := make(map[inode]bool)
	known := make(map[string]bool, len(denied))
	for _, d := range denied {
		known[d.Path] = true
		if id, links, ok := fspath.LinkCount(d.Path); ok && !d.Folder && links > 1 {
			linked[inode{id.Dev, id.Ino}] = true
		}
	}
	if len(linked) == 0 {
		return nil, nil
	}
	var out []Entry
	folders := 0
	for _, root := range roots {
		if fspath.BelowAny(root, roots) {
			continue
		}
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case fspath.IsNotExist(err) || errors.Is(err, fs.ErrPermission):
				return nil
			case err != nil:
				return fmt.Errorf("search for other names of denied files: %w", err)
			case e.IsDir():
				if folders++; folders > maxFolders {
					return fmt.Errorf("a denied file has other names (hard links), and there are more than %d folders to search for them below %s; give the sandbox narrower roots", maxFolders, root)
				}
				if slices.ContainsFunc(denied, func(d Entry) bool { return d.Path == path }) {
					return filepath.SkipDir
				}
			case e.Type().IsRegular() && !known[path]:
				if in, id, _, err := fspath.LstatIn(path); err == nil && linked[inode{id.Dev, id.Ino}] {
					out = append(out, Entry{Path: path, Parent: in, ID: id})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
