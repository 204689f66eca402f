package autorun

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// RepositoryMarks are files in a repository's own folder, whatever the folder is called. Their order is that of the bits in
// [tree.Folder.Marks].
var RepositoryMarks = []string{"head", "objects", "refs", "commondir"}

// shapes are the sets of marks that make a folder a repository's own. Each of them may be a symbolic link.
var shapes = []uint8{1 | 2 | 4, 1 | 8}

func isRepository(of uint8) bool {
	return slices.ContainsFunc(shapes, func(s uint8) bool { return of&s == s })
}

// maxTrees is how many trees of idle roots are kept.
const maxTrees = 16

// ErrClosed is returned once the index is closed.
var ErrClosed = errors.New("gantry is ending")

// Index knows for each writable root where the files are. It reads a root once, in the background, and is kept current from then
// on.
type Index struct {
	UserHome    string            // the user's home folder; empty: none
	References  *References       // finds what git's settings name
	CacheDir    string            // where trees are cached on disk; empty: nowhere
	CompareOnly bool              // compare folders instead of watching them, for tests
	OnChange    func(root string) // called when something has changed
	// InUse reports whether commands work in the folder that was at root.
	InUse func(root string) bool

	mu     sync.Mutex
	trees  map[string]*indexTree
	closed bool
	work   sync.WaitGroup
}

// indexTree is the tree of a root.
type indexTree struct {
	*tree.Tree
	lastResult tree.Result // of Settle
	lastUsed   time.Time
	stop       chan struct{}
}

// Open returns the tree of a root, which may still be being read.
func (x *Index) Open(root string) (*indexTree, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, ErrClosed
	}
	g := x.trees[root]
	if g == nil {
		o := tree.Options{Walk: x.CompareOnly, Rules: tree.Rules{Names: slices.Concat(NestedNames, enteredNames), Enter: slices.Concat(entered(), enteredNames), Marks: RepositoryMarks, Shapes: shapes}}
		if x.CacheDir != "" {
			o.Cache = filepath.Join(x.CacheDir, hashName(root))
		}
		t, err := tree.Open(root, o)
		if err != nil {
			return nil, err
		}
		g = &indexTree{Tree: t, stop: make(chan struct{})}
		if x.trees == nil {
			x.trees = map[string]*indexTree{}
		}
		x.trees[root] = g
		x.work.Go(func() { x.forwardChanges(root, g) }) // waited for by close
	}
	g.lastUsed = time.Now()
	return g, nil
}

func hashName(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

// forwardChanges calls OnChange when something has changed.
func (x *Index) forwardChanges(root string, g *indexTree) {
	for {
		select {
		case <-g.stop:
			return
		case <-g.Changes():
			began := time.Now()
			x.OnChange(root)
			pause := time.NewTimer(9 * time.Since(began)) // folders that change continuously cost a tenth of a processor at most
			select {
			case <-g.stop:
				pause.Stop()
				return
			case <-pause.C:
			}
		}
	}
}

// remove closes a tree.
func (x *Index) remove(root string, g *indexTree) {
	x.mu.Lock()
	ours := x.trees[root] == g
	if ours {
		delete(x.trees, root)
	}
	x.mu.Unlock()
	if !ours {
		return
	}
	close(g.stop)
	_ = g.Close() // if the cache is not written, the next tree reads all folders
}

// WhyCompared says why the folders of a root are compared for each command, or "" if they are watched.
func (x *Index) WhyCompared(root string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if g := x.trees[root]; g != nil {
		return g.Stats().Why
	}
	return ""
}

// Forget closes the tree of a root, if there is one.
func (x *Index) Forget(root string) {
	x.mu.Lock()
	g := x.trees[root]
	x.mu.Unlock()
	if g != nil {
		x.remove(root, g)
	}
}

// Trim closes the least recently used trees of idle roots.
func (x *Index) Trim(idle func(root string) bool) {
	x.mu.Lock()
	over := len(x.trees) - maxTrees
	roots := slices.SortedFunc(maps.Keys(x.trees), func(a, b string) int { return x.trees[a].lastUsed.Compare(x.trees[b].lastUsed) })
	x.mu.Unlock()
	for _, root := range roots {
		if over <= 0 {
			return
		}
		if !idle(root) {
			continue
		}
		over--
		x.Forget(root)
	}
}

// Entered returns the paths with enteredNames below the first level of roots, as of the last search.
func (x *Index) Entered(roots []string) (paths []string) {
	const most = 5_000
	for _, root := range fspath.Outermost(roots) {
		g, err := x.Open(root)
		if err != nil {
			continue // searching for files reports the error
		}
		for _, f := range g.Noted() {
			for _, name := range f.Named {
				if slices.Contains(enteredNames, name) && !slices.Contains(roots, f.Path) && len(paths) < most {
					paths = append(paths, filepath.Join(f.Path, name))
				}
			}
		}
	}
	return paths
}

func (x *Index) Close() {
	x.mu.Lock()
	x.closed = true
	trees := maps.Clone(x.trees)
	x.mu.Unlock()
	for root, g := range trees {
		x.remove(root, g)
	}
	x.work.Wait()
}

// Settle brings the tree of a root up to date and returns it.
func (x *Index) Settle(root string) (*indexTree, tree.Result, error) {
	for again := false; ; again = true {
		g, err := x.Open(root)
		if err == nil {
			var r tree.Result
			if r, err = g.Settle(); err == nil {
				g.lastResult = r
				return g, r, nil
			}
		}
		if errors.Is(err, tree.ErrGone) && g != nil {
			x.remove(root, g)
			if !again && !x.InUse(root) { // another folder may be at the path by now, in which no command works
				continue
			}
		}
		return nil, tree.Result{}, fmt.Errorf("files that are executed later can't be searched: %w; make the folder readable for gantry, or remove it from the sandbox's writable folders", err)
	}
}

// settleFunc returns the tree of a root and the result of its last Settle.
type settleFunc func(root string) (*indexTree, tree.Result, error)

// settled is Settle for a root that was settled a moment ago.
func (x *Index) settled(root string) (*indexTree, tree.Result, error) {
	x.mu.Lock()
	g := x.trees[root]
	x.mu.Unlock()
	if g == nil || g.lastResult == (tree.Result{}) {
		return x.Settle(root)
	}
	return g, g.lastResult, nil
}

// maxOpened bounds how deep folders are nested that first have to be made listable.
const maxOpened = 64

// Find searches roots. whole are the sealed paths with the identities of what was there: as long as they are unchanged nothing in
// them is searched. Folders that can't be listed are made listable unless open contains them; nil: none are.
func (x *Index) Find(roots []string, whole map[string]fspath.Identity, open map[fspath.Identity]bool) (*Found, error) {
	return x.find(roots, whole, open, x.Settle)
}

// FindAgain is Find for a caller that has just called Find with the same roots and another whole: the folders are not compared
// again.
func (x *Index) FindAgain(roots []string, whole map[string]fspath.Identity) (*Found, error) {
	return x.find(roots, whole, nil, x.settled)
}

func (x *Index) find(roots []string, whole map[string]fspath.Identity, open map[fspath.Identity]bool, settle settleFunc) (*Found, error) {
	for range maxOpened {
		p := &Found{Roots: roots, Sealed: fspath.Unchanged(whole), known: open, refs: x.References}
		again, err := x.collect(p, settle)
		if err != nil || !again {
			return p, err
		}
		settle = x.Settle
	}
	return nil, fmt.Errorf("folders that can't be listed are nested more than %d deep; remove them", maxOpened)
}

func (x *Index) collect(p *Found, settle settleFunc) (again bool, err error) {
	var versions strings.Builder
	if x.UserHome != "" {
		for _, root := range fspath.Outermost(p.Roots) {
			p.addStartup(root, x.UserHome)
		}
	}
	for _, root := range fspath.Outermost(p.Roots) {
		g, result, err := settle(root)
		if err != nil {
			return false, err
		}
		p.Moved = p.Moved || result.Moved
		fmt.Fprintf(&versions, "%p %d ", g, result.Links)
		p.Trees = append(p.Trees, g.Tree)
		folders := g.Noted()
		for i := range folders {
			if p.visit(root, &folders[i]) {
				g.Again(folders[i].Path)
				again = true
			}
		}
		p.addProtected(root)
		p.addSettings(EnclosingRepository(root))
	}
	if x.References != nil {
		p.addReferences(x.References.InPath(p.Roots))
	}
	p.LinkVersion = fmt.Sprintf("%s%q", versions.String(), p.Sealed)
	return again, nil
}
