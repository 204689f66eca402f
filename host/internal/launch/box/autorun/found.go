package autorun

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/evict"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/gitconfig"
	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// Below the first level of a writable root anybody may make what is executed later: a repository with hooks, settings of an
// agent. What is there already is kept read-only; what a process has made is moved aside. Both need to know where such things lie: see
// [index].

// NestedNames are executed later, or say what may be, wherever they lie.
var NestedNames = []string{".git", ".agents", ".codex", ".gantry", ".hg", ".jj", ".sl", "_darcs", ".repo", ".bzr", ".pijul"}

const (
	KindUnknown       Kind = iota
	KindAgentSettings      // an agent's settings: never made in a box
	KindHook               // what git executes
	KindGitSettings        // what may name programs for git
	KindVCSSettings        // what may name programs for another version control
	KindUnlistable         // a folder in which files may be reached and can't be listed
	KindSetID              // a program that gives its owner's rights to whoever starts it
	KindStartup            // what the user's shells and desktop execute
	KindProtectedLink      // a protected name that no sandbox could keep as it is
	KindDenied             // what deny_read or deny_write names
	KindReferenced         // what git's settings, or the user's PATH, name
	KindRepository         // a repository's own folder: known, and never moved aside
	KindCause              // what has made another part one
	KindRootLink           // a link in the place of a writable root, or on the way to it
)

// Found are what was found.
type Found struct {
	Files       []File
	ReadOnly    []string     // what of it is kept read-only, absolute
	Trees       []*tree.Tree // of the outermost roots
	LinkVersion string       // changes when names of files that have others may have
	Moved       bool         // some folders were gone when they were to be looked at
	Roots       []string
	Sealed      []string // protected paths below the roots' first level that are read-only with all that is in them
	refs        *References
	Named       map[string]string // what git's settings name in the roots, whether it is there or not, as they name it
	Reasons     map[string]string // of those
	texts       map[string]bool   // by which those that are there are named
	Err         error             // why they can't be followed
	// open makes folders be listed that can't be; those that were so before have nothing new in them.
	known map[fspath.Identity]bool
}

// visit notes what is in a folder of a root. again: it could not be listed, and now it can.
func (p *Found) visit(root string, f *tree.Folder) (again bool) {
	if f.Closed {
		return p.addUnlistable(root, f.Path)
	}
	switch {
	case filepath.Base(f.Path) == ".git" || !isRepository(f.Marks):
	case len(f.Path) > maxReachable:
		p.addDeep(root, f.Path, filepath.Join(f.Path, "HEAD")) // without it it is no repository
	default:
		p.addRepository(root, f.Path, "")
		p.addSettings(f.Path, f.Path)
	}
	for _, name := range f.Rights {
		path := filepath.Join(f.Path, name)
		if id, _, ok := fspath.Lstat(path); ok {
			p.add(root, path, KindSetID, id)
		}
	}
	for _, name := range f.Named {
		if !slices.Contains(enteredNames, name) {
			p.addNested(root, filepath.Join(f.Path, name))
		}
	}
	return false
}

// Covered reports whether a path lies in what is read-only as a whole: names there are as good as outside.
func (p *Found) Covered(path string) bool {
	return slices.Contains(p.Sealed, path) || fspath.BelowAny(path, p.Sealed)
}

// addProtected notes what lies at the first level of the roots in one and is protected only there, and links that no sandbox could be made with.
func (p *Found) addProtected(outer string) {
	for _, root := range p.Roots {
		if root != outer && !fspath.Below(root, outer) {
			continue
		}
		for _, name := range Protected {
			path := filepath.Join(root, name)
			id, mode, ok := fspath.Lstat(path)
			switch {
			case !ok || slices.Contains(p.Sealed, path):
			case mode&fs.ModeSymlink != 0:
				p.add(outer, path, KindProtectedLink, id)
			case !slices.Contains(NestedNames, name):
				p.add(outer, path, KindAgentSettings, fspath.Persistent(path, id))
				p.ReadOnly = append(p.ReadOnly, path)
			}
		}
	}
}

// maxReachable is how long the path of a repository may be so that all that is executed in it can be named.
const maxReachable = 3800

// addDeep handles what lies at a longer path as a whole: where it is new, what makes it what it is goes.
func (p *Found) addDeep(root, path, needs string) {
	id, _, ok := fspath.Lstat(path)
	if !ok {
		return
	}
	p.add(root, needs, KindUnlistable, fspath.Persistent(path, id))
	if len(path) < fspath.MaxPath {
		p.ReadOnly = append(p.ReadOnly, path)
	}
}

// addNested handles one of nestedNames.
func (p *Found) addNested(root, path string) {
	id, mode, ok := fspath.Lstat(path)
	if ok && filepath.Base(path) == ".git" {
		p.addSettings(EnclosingRepository(filepath.Dir(path)))
	}
	switch own := VCSSettings[filepath.Base(path)]; {
	case !ok || slices.Contains(p.Sealed, path):
	case len(path) > maxReachable:
		p.addDeep(root, path, path)
	case own != nil:
		p.addVCS(root, path, own)
	case filepath.Base(path) != ".git":
		p.add(root, path, KindAgentSettings, fspath.Persistent(path, id)) // its content is kept read-only
		p.ReadOnly = append(p.ReadOnly, path)
	case mode.IsDir():
		p.addRepository(root, path, "")
	case mode&fs.ModeSymlink != 0:
		if to, err := filepath.EvalSymlinks(path); err == nil {
			p.addElsewhere(to, path)
		}
	case mode == 0:
		p.addElsewhere(gitconfig.Dir(path), path)
	}
}

// addElsewhere is for a repository's own folder that via leads to, if commands may write it.
func (p *Found) addElsewhere(dir, via string) {
	for _, root := range p.Roots {
		if dir == root || fspath.Below(dir, root) {
			p.addRepository(root, dir, via)
			return
		}
	}
}

// addUnlistable handles a folder that can't be listed, though what is in it can be reached by its name, as git does with hooks, or will be once
// its owner has given the right back. One that was so before stays read-only; one that is new is opened. It reports whether it was.
func (p *Found) addUnlistable(root, path string) (opened bool) {
	id, mode, ok := fspath.Lstat(path)
	if !ok || !mode.IsDir() || !fspath.Searchable(path) && !fspath.LacksRights(path) {
		return false
	}
	if p.known == nil || p.known[id] {
		p.add(root, path, KindUnlistable, id)
		p.ReadOnly = append(p.ReadOnly, path)
		return false
	}
	return evict.MakeListable(root, path) == nil
}

// addRepository notes what git executes for the repository whose own folder dir is. Of a worktree much of it lies with the repository
// that it belongs to. via is the file or link that leads there; empty: none.
func (p *Found) addRepository(root, dir, via string) {
	made := Origin{Repositories: []string{dir}, Top: dir}
	if via != "" {
		made.Via = []string{via}
	}
	p.addGitDir(root, dir, made)
	if common := gitconfig.CommonDir(dir); common != "" && common != dir {
		for _, root := range p.Roots {
			if (common == root || fspath.Below(common, root)) && !p.Covered(common) {
				made.Repositories = []string{common, dir}
				p.addGitDir(root, common, made)
				return
			}
		}
	}
}

func (p *Found) addGitDir(root, dir string, made Origin) {
	if id, _, ok := fspath.Lstat(dir); ok {
		p.add(root, dir, KindRepository, fspath.Persistent(dir, id))
	}
	hooks := filepath.Join(dir, "hooks")
	switch id, mode, ok := fspath.Lstat(hooks); {
	case !ok:
	case !mode.IsDir(): // a link: what it leads to may change
		p.addMade(root, hooks, KindHook, id, made)
	default:
		p.ReadOnly = append(p.ReadOnly, hooks)
		entries, err := os.ReadDir(hooks)
		if errors.Is(err, fs.ErrPermission) && p.addUnlistable(root, hooks) {
			entries, _ = os.ReadDir(hooks)
		}
		for _, e := range entries {
			if name := e.Name(); !strings.HasSuffix(name, ".sample") && !strings.Contains(name, fspath.QuarantineSuffix) {
				if id, _, ok := fspath.Lstat(filepath.Join(hooks, name)); ok {
					p.addMade(root, filepath.Join(hooks, name), KindHook, id, made)
				}
			}
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		path := filepath.Join(dir, name)
		if id, mode, ok := fspath.Lstat(path); ok {
			p.addMade(root, path, KindGitSettings, id, made)
			if mode.IsRegular() {
				p.ReadOnly = append(p.ReadOnly, path)
			}
		}
	}
}

func (p *Found) add(root, path string, k Kind, id fspath.Identity) {
	p.addMade(root, path, k, id, Origin{})
}

func (p *Found) addMade(root, path string, k Kind, id fspath.Identity, made Origin) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return
	}
	p.Files = append(p.Files, File{Root: root, Path: rel, Kind: k, ID: id, Origin: made})
}
