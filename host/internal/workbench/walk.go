package workbench

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/workbench/ignore"
)

// Limits of a search.
const (
	maxWalked  = 1_000_000 // files and folders; beyond it the search covers those that were found, the shallow ones first
	maxWalkers = 12        // goroutines, at most one for each processor. Compatible with codex.
	maxIgnore  = 1 << 20   // bytes of a file with patterns
)

// found is a file or folder in a root.
type found struct {
	root   int    // index
	path   string // relative, with slashes
	folder bool
}

// walk is a search for files below some roots. Files that .gitignore and .ignore files exclude are left out, as are .git folders and
// what commands can't see. Symbolic links are not followed.
type walk struct {
	roots []string   // resolved
	areas [][]judged // of each root
	// confined: the goroutines give up the process's capabilities.
	confined bool

	mu    sync.Mutex
	ready *sync.Cond // there is a folder, or the walk has ended
	queue []folder
	busy  int // goroutines that may find further folders
	left  int // files and folders that may still be found
	ended bool
}

// folder is a folder to be read.
type folder struct {
	root  int
	path  string // relative; empty: the root
	lists *ignore.List
	parts int // elements above the root in the paths of lists
}

// newWalk checks roots and returns a walk of them.
func (b *searches) newWalk(roots []string) (*walk, error) {
	w := &walk{left: maxWalked}
	w.ready = sync.NewCond(&w.mu)
	for i, root := range roots {
		p, err := b.bench.find("roots", root)
		if err != nil {
			return nil, err
		}
		f, err := p.open(os.O_RDONLY, fs.ModeDir)
		p.close()
		if err != nil {
			return nil, named(root, err)
		}
		f.Close()
		inner, err := b.bench.cfg.areas().below(p.path)
		if err != nil {
			return nil, err
		}
		w.roots, w.areas = append(w.roots, p.path), append(w.areas, inner)
		w.queue = append(w.queue, w.top(i))
	}
	return w, nil
}

// top returns the folder of a root, with the patterns of the repository that it is in.
func (w *walk) top(i int) folder {
	root := w.roots[i]
	repo := root
	for !exists(filepath.Join(repo, ".git")) {
		up := filepath.Dir(repo)
		if up == repo {
			repo = root
			break
		}
		repo = up
	}
	f := folder{root: i, lists: ignore.Parse(nil, "", patterns(filepath.Join(repo, ".git", "info", "exclude")))}
	rel, err := filepath.Rel(repo, root)
	if err != nil || rel == "." {
		return f
	}
	// Patterns above the root are relative to their folders, so all paths are relative to the repository's.
	at := ""
	for name := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		f.lists = readLists(f.lists, filepath.Join(repo, at), at)
		at = strings.TrimPrefix(at+"/"+name, "/")
		f.parts++
	}
	return f
}

// readLists adds the patterns of the files in a folder. Those of .ignore take precedence.
func readLists(lists *ignore.List, dir, rel string) *ignore.List {
	for _, name := range []string{".gitignore", ".ignore"} {
		if text := patterns(filepath.Join(dir, name)); text != "" {
			lists = ignore.Parse(lists, filepath.ToSlash(rel), text)
		}
	}
	return lists
}

// patterns returns the text of a file with patterns, or "". A command may have made it anything.
func patterns(path string) string {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return ""
	}
	return string(text)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// run walks until everything was found or ctx ends. Each goroutine calls visit with its number and what it has found in a folder; begin
// is called before, with the number of goroutines.
func (w *walk) run(ctx context.Context, begin func(walkers int), visit func(walker int, list []found)) {
	n := min(maxWalkers, runtime.GOMAXPROCS(0))
	begin(n)
	defer context.AfterFunc(ctx, w.end)()
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			if w.confined && confineThread() != nil {
				return // nothing is found
			}
			for f, ok := w.next(); ok; f, ok = w.next() {
				w.read(ctx, f, func(list []found) { visit(i, list) })
				w.done()
			}
		})
	}
	work.Wait()
}

func (w *walk) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.ready.Broadcast()
}

// next returns a folder to read. It waits while others may find one.
func (w *walk) next() (folder, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && w.busy > 0 && !w.ended {
		w.ready.Wait()
	}
	if len(w.queue) == 0 || w.ended {
		return folder{}, false
	}
	f := w.queue[0]
	w.queue[0] = folder{}
	w.queue = w.queue[1:]
	w.busy++
	return f, true
}

func (w *walk) done() {
	w.mu.Lock()
	w.busy--
	w.mu.Unlock()
	w.ready.Broadcast()
}

// found adds folders to read. It returns how many of n entries may be reported.
func (w *walk) found(folders []folder, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, w.left)
	w.left -= n
	if w.left == 0 {
		w.ended = true
	}
	w.queue = append(w.queue, folders...)
	w.ready.Broadcast()
	return n
}

// read reads one folder. What can't be read is left out.
func (w *walk) read(ctx context.Context, f folder, visit func([]found)) {
	dir := filepath.Join(w.roots[f.root], filepath.FromSlash(f.path))
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	// The paths of the lists begin above the root, at the repository.
	depth := f.parts
	if f.path != "" {
		depth += strings.Count(f.path, "/") + 1
	}
	above := strings.Split(filepath.ToSlash(dir), "/")
	above = above[len(above)-depth:]
	lists := readLists(f.lists, dir, strings.Join(above, "/"))
	parts := append(above[:len(above):len(above)], "")
	for ctx.Err() == nil {
		entries, err := d.ReadDir(1024)
		var list []found
		var folders []folder
		for _, e := range entries {
			name := e.Name()
			parts[len(parts)-1] = name
			path := name
			if f.path != "" {
				path = f.path + "/" + name
			}
			isFolder := e.IsDir()
			if isFolder && name == ".git" || lists.Excludes(parts, isFolder) || !w.visible(f.root, filepath.Join(dir, name), isFolder) {
				continue
			}
			x := found{f.root, path, isFolder}
			if e.Type()&fs.ModeSymlink != 0 {
				if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
					x.folder = info.IsDir()
				}
			}
			list = append(list, x)
			if isFolder {
				folders = append(folders, folder{f.root, path, lists, f.parts})
			}
		}
		n := w.found(folders, len(list))
		visit(list[:n])
		if err != nil || n < len(list) {
			return
		}
	}
}

// judged are the rules for the files below a path.
type judged struct {
	path string
	rules
	denied []glob.Pattern
}

// below returns the rules for what a folder contains: its own first, then those of workspaces inside of it.
func (a *areas) below(path string) ([]judged, error) {
	list := []judged{{path: path, rules: a.of(path)}}
	for _, r := range a.roots {
		if fspath.Below(r.path, path) {
			list = append(list, judged{path: r.path, rules: a.of(r.path)})
		}
	}
	for i := range list {
		for _, text := range list[i].grant.DenyRead {
			g, err := glob.Parse(text)
			if err != nil {
				return nil, rpc.Errorf(rpc.Internal, "sandbox { deny_read }: %s", err)
			}
			list[i].denied = append(list[i].denied, g)
		}
	}
	return list, nil
}

// visible reports whether commands see a file. Files that are hidden as keys are not left out by themselves: their names are known.
func (w *walk) visible(root int, path string, folder bool) bool {
	r := &w.areas[root][0]
	for i := range w.areas[root][1:] {
		if in := &w.areas[root][1+i]; len(in.path) > len(r.path) && (path == in.path || fspath.Below(path, in.path)) {
			r = in
		}
	}
	if folder {
		return !r.private(path) && !r.hidden(path) && r.reach(path) >= box.AccessRead
	}
	// In a folder that is visible, only a pattern can deny a file.
	return !slices.ContainsFunc(r.denied, func(p glob.Pattern) bool { return p.Match(path) != "" })
}
