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

// Anywhere below a writable root a command may create a repository with hooks, or an agent's settings. What exists is kept
// read-only, what a command has created is moved aside. Both need to know where these files are: see [Index].

// NestedNames are executed later, or say what may be, at any depth.
var NestedNames = []string{".git", ".agents", ".codex", ".gantry", ".hg", ".jj", ".sl", "_darcs", ".repo", ".bzr", ".pijul"}

const (
	KindUnknown       Kind = iota
	KindAgentSettings      // an agent's settings folder
	KindHook               // executed by git
	KindGitSettings        // may name programs for git
	KindVCSSettings        // may name programs for another version control system
	KindUnlistable         // a folder whose files can be reached by name but not listed
	KindSetID              // a program with the setuid or setgid bit
	KindStartup            // executed by the user's shells or desktop
	KindProtectedLink      // a protected name that is a symbolic link, which can't be kept read-only
	KindDenied             // matched by deny_read or deny_write
	KindReferenced         // named by git's settings or the user's PATH
	KindRepository         // a repository's own folder: recorded, never moved aside
	KindCause              // what made another file matter, see [Origin]
	KindRootLink           // a symbolic link in the place of a writable root, or on the way to it
)

// Found is the result of a search.
type Found struct {
	Files       []File
	ReadOnly    []string     // absolute paths that are to be kept read-only
	Trees       []*tree.Tree // of the outermost roots
	LinkVersion string       // changes when hard links may have changed
	Moved       bool         // some folders disappeared during the search
	Roots       []string
	Sealed      []string // protected paths that are read-only with all that is in them, so not searched
	refs        *References
	Named       map[string]string // what git's settings name in the roots, existing or not, as the settings spell it
	Reasons     map[string]string // for messages, by the same paths
	texts       map[string]bool   // the texts that name existing paths
	Err         error             // why the settings can't be followed
	// known are the files that existed before. A folder that can't be listed is made listable unless it is one of them; nil: none
	// is.
	known map[fspath.Identity]bool
}

// visit adds what is in a folder of root. again says that the folder could not be listed and now can.
func (p *Found) visit(root string, f *tree.Folder) (again bool) {
	if f.Closed {
		return p.addUnlistable(root, f.Path)
	}
	switch {
	case filepath.Base(f.Path) == ".git" || !isRepository(f.Marks):
	case len(f.Path) > maxReachable:
		p.addDeep(root, f.Path, filepath.Join(f.Path, "HEAD")) // without HEAD it is not a repository
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

// Covered reports whether path is in a sealed folder, so that its files can't be written.
func (p *Found) Covered(path string) bool {
	return slices.Contains(p.Sealed, path) || fspath.BelowAny(path, p.Sealed)
}

// addProtected adds what is protected only at the first level of a root, and protected names that are symbolic links.
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

// maxReachable is the longest path of a repository in which every file has a path that the kernel accepts.
const maxReachable = 3800

// addDeep adds what is at a longer path as a whole. If it is new, the file at needs is moved aside, without which the rest has no
// effect.
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

// addNested adds a file or folder that has one of NestedNames.
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
		p.add(root, path, KindAgentSettings, fspath.Persistent(path, id)) // its content is kept read-only, so its change time does not matter
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

// addElsewhere adds the repository folder that via leads to if it is in a writable root.
func (p *Found) addElsewhere(dir, via string) {
	for _, root := range p.Roots {
		if dir == root || fspath.Below(dir, root) {
			p.addRepository(root, dir, via)
			return
		}
	}
}

// addUnlistable adds a folder that can't be listed although its files can be reached by name, as git reaches hooks, or could be
// once its owner restores the right. One that was there before is kept read-only; a new one is made listable. It reports whether it
// was.
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

// addRepository adds what git executes for the repository whose own folder is dir. For a worktree, much of that is in the main
// repository's folder. via is the file or link that leads to dir, or "".
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
	case !mode.IsDir(): // a symbolic link, whose target may change
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
