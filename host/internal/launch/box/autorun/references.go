package autorun

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/gitconfig"
)

// Git's settings may name files in the working tree: hooks, further settings, programs. The user's PATH may lead there as well. All
// of that is executed without a question, so commands must not change it.

// References finds what git's settings and PATH name, and caches settings that have not changed.
type References struct {
	user gitconfig.User
	path []string // the folders of PATH
	mu   sync.Mutex
	read map[[2]string]*repositorySettings // by a repository's own folder and the main repository's
}

// repositorySettings are the settings of a repository, with the identities of the files that they were read from.
type repositorySettings struct {
	gitconfig.Settings
	ids map[string]fspath.Identity
}

// Reference is a path that another program executes or reads as settings.
type Reference struct {
	Path   string
	Folder bool // including all that is in it
	Kind   Kind // KindReferenced or KindGitSettings
	Why    string
	via    string // the symbolic link among a repository's hooks that leads there; empty: none
	text   string // the setting that names it, independent of the repository; empty: its path
}

func NewReferences(home string, environ []string) *References {
	variable := func(name string) string {
		for _, kv := range slices.Backward(environ) {
			if k, v, _ := strings.Cut(kv, "="); k == name {
				return v
			}
		}
		return ""
	}
	return &References{user: gitconfig.UserOf(home, variable), path: filepath.SplitList(variable("PATH")), read: map[[2]string]*repositorySettings{}}
}

// settings returns the settings of a repository and of the user.
func (n *References) settings(dir string) gitconfig.Settings {
	common := gitconfig.CommonDir(dir)
	if common == "" {
		common = dir
	}
	key := [2]string{dir, common}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.read[key]; s != nil && maps.Equal(s.ids, identities(s.Files)) {
		return s.Settings
	}
	now := time.Now()
	s := &repositorySettings{Settings: gitconfig.Read(n.user, dir, common)}
	s.ids = identities(s.Files)
	for _, id := range s.ids {
		if now.Sub(time.Unix(0, id.Changed)) < fspath.ClockSlack {
			s.ids = nil // too recent to trust: read them again next time
			break
		}
	}
	const most = 10_000
	if len(n.read) >= most {
		clear(n.read)
	}
	n.read[key] = s
	return s.Settings
}

func identities(files []string) map[string]fspath.Identity {
	out := make(map[string]fspath.Identity, len(files))
	for _, f := range files {
		if to, err := filepath.EvalSymlinks(f); err == nil {
			f = to
		}
		out[f], _, _ = fspath.Lstat(f)
	}
	return out
}

// Of returns what is executed for the repository whose own folder is dir and whose working tree is at top.
func (n *References) Of(dir, top string) (out []Reference, err error) {
	s := n.settings(dir)
	if s.Cut {
		return nil, fmt.Errorf("the git settings for %s include too many files, or include them too deeply; reduce the includes, or work in another folder", top)
	}
	common := cmp.Or(gitconfig.CommonDir(dir), dir)
	for _, f := range s.Files {
		in, name := filepath.Dir(f), filepath.Base(f)
		if _, mode, _ := fspath.Lstat(f); (in == dir || in == common) && (name == "config" || name == "config.worktree") && mode&fs.ModeSymlink == 0 {
			continue // the repository's own settings are found wherever the repository is
		}
		out = append(out, Reference{Path: f, Kind: KindGitSettings, Why: "git reads it as settings, which may name programs"})
	}
	for _, x := range s.List {
		why := fmt.Sprintf("git would execute it, because of %s in %s", x.Name(), x.From)
		text := x.Name() + "=" + x.Value
		switch x.Use() {
		case gitconfig.Hooks:
			folder := gitconfig.Expand(x.Value, top, n.user.Home)
			if dir := filepath.Dir(folder); filepath.Base(folder) == "_" && filepath.Base(dir) == ".husky" {
				folder = dir // husky's hooks look for the project's in the folder above
			}
			out = append(out, Reference{Path: folder, Folder: true, Kind: KindReferenced, Why: why, text: text})
		case gitconfig.Template:
			out = append(out, Reference{Path: gitconfig.Expand(x.Value, top, n.user.Home), Folder: true, Kind: KindReferenced, Why: why, text: text})
		case gitconfig.Program:
			out = append(out, n.programs(x.Value, top, why, x.Section == "alias")...)
		case gitconfig.Include, gitconfig.Nothing:
		}
	}
	return append(out, linkedHooks(dir)...), nil
}

// programs returns the files that a command line may execute when git starts it at the top of the working tree. byHand says that
// the user starts it, as an alias: folders that it names are then only searched for programs, since working on them is its purpose.
func (n *References) programs(line, top, why string, byHand bool) (out []Reference) {
	words := gitconfig.Words(line)
	bases := []string{top}
	for _, w := range words {
		if p := gitconfig.Expand(w.Text, top, n.user.Home); p != top && fspath.IsDir(p) && len(bases) < 10 && !w.Module {
			bases = append(bases, p) // the target of a cd, or of a variable that is set
		}
	}
	add := func(w gitconfig.Word, path string, folder bool) {
		out = append(out, Reference{Path: path, Folder: folder, Kind: KindReferenced, Why: why, text: w.Text + " in " + line})
	}
	for _, w := range words {
		// make, npm and the like run what files in a folder say: in the folders that the line names, or, for a line that git starts by
		// itself, at the top if it names none.
		in := bases // folders in which a build may take place
		if len(bases) > 1 || byHand {
			in = bases[1:]
		}
		for _, base := range in {
			for _, name := range gitconfig.Builds(w.Of) {
				add(w, filepath.Join(base, name), false)
			}
		}
		for _, base := range bases {
			p := gitconfig.Expand(w.Text, base, n.user.Home)
			if p == "" {
				continue
			}
			if w.Module {
				name, _, _ := strings.Cut(w.Text, ".")
				add(w, filepath.Join(base, name+".py"), false)
				if byHand {
					add(w, filepath.Join(base, name, "__main__.py"), false)
				} else {
					add(w, filepath.Join(base, name), true)
				}
				continue
			}
			candidates := []string{p}
			if strings.HasPrefix(w.Text, "/") {
				candidates = append(candidates, filepath.Join(base, w.Text)) // the rest of a path after a variable or $(…)
			}
			for _, p := range candidates {
				info, err := os.Stat(p)
				switch {
				case err == nil && info.IsDir() && p != top && gitconfig.Folder(w.Of) && !byHand:
					add(w, p, true)
				case err == nil && info.Mode().IsRegular() && (w.Runs || info.Mode().Perm()&0o111 != 0),
					fspath.IsNotExist(err) && w.Runs && strings.Contains(w.Text, "/"):
					add(w, p, false)
				}
			}
		}
	}
	return out
}

// linkedHooks returns the targets of symbolic links among a repository's hooks.
func linkedHooks(dir string) (out []Reference) {
	const why = "git would execute it: a hook is a symbolic link to it"
	hooks := filepath.Join(dir, "hooks")
	if to, err := filepath.EvalSymlinks(hooks); err == nil && to != hooks {
		if info, err := os.Lstat(hooks); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			out = append(out, Reference{Path: to, Folder: true, Kind: KindReferenced, Why: why, via: hooks})
		}
	}
	entries, err := os.ReadDir(hooks)
	if err != nil {
		return out
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || strings.Contains(e.Name(), fspath.QuarantineSuffix) {
			continue
		}
		if to, err := os.Readlink(filepath.Join(hooks, e.Name())); err == nil {
			out = append(out, Reference{Path: gitconfig.Expand(to, hooks, ""), Kind: KindReferenced, Why: why, via: filepath.Join(hooks, e.Name())})
		}
	}
	return out
}

// managed are the path suffixes at which package managers install programs. The name alone counts: a command could create any
// content.
var managed = []string{"/node_modules/.bin", "/.venv/bin", "/venv/bin", "/env/bin", "/.env/bin", "/virtualenv/bin"}

// InPath returns the folders of the user's PATH, without those that a package manager fills: changing them is everyday work, which
// is reported instead.
func (n *References) InPath(roots []string) (out []Reference) {
	for _, dir := range n.path {
		dirs := []string{dir}
		if !filepath.IsAbs(dir) {
			dirs = nil
			for _, r := range roots {
				dirs = append(dirs, filepath.Join(r, dir))
			}
		}
		for _, d := range dirs {
			d = filepath.Clean(d)
			if !slices.ContainsFunc(managed, func(end string) bool { return strings.HasSuffix(d, end) }) && !slices.ContainsFunc(roots, func(r string) bool { return r == d || fspath.Below(r, d) }) {
				out = append(out, Reference{Path: d, Folder: true, Kind: KindReferenced, Why: "your shell finds programs there, because of PATH"})
			}
		}
	}
	return out
}

// maxEnclosing is how many folders up a repository is looked for.
const maxEnclosing = 64

// EnclosingRepository returns the repository's own folder and the top of the working tree that dir is in, as git finds them, or "".
func EnclosingRepository(dir string) (own, top string) {
	for range maxEnclosing {
		p := filepath.Join(dir, ".git")
		switch info, err := os.Stat(p); {
		case err == nil && info.IsDir():
			return p, dir
		case err == nil && info.Mode().IsRegular():
			return gitconfig.Dir(p), dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return "", ""
}

const (
	// maxNamed bounds the distinct settings, and other reasons, that name existing paths. Each of them is a mount in every
	// repository that has it.
	maxNamed = 256
	// maxNames bounds the paths that are named in all.
	maxNames = 100_000
)

// addSettings adds what a repository's settings name in the roots.
func (p *Found) addSettings(dir, top string) {
	if p.refs == nil || dir == "" || p.Err != nil || p.newSettings(dir) {
		return
	}
	list, err := p.refs.Of(dir, top)
	if err != nil {
		p.Err = err
		return
	}
	p.addReferences(list)
}

// newSettings reports whether a repository's settings were created since a command began. No line of those that names anything will
// stay.
func (p *Found) newSettings(dir string) bool {
	if p.known == nil || p.Covered(dir) || !fspath.BelowAny(dir, p.Roots) {
		return false
	}
	id, _, ok := fspath.Lstat(filepath.Join(dir, "config"))
	return ok && !p.known[id]
}

// addReferences records references, and adds and protects those that are in a root and exist.
func (p *Found) addReferences(list []Reference) {
	w := fspath.NewStatCache()
	for _, t := range list {
		if _, _, plain := w.Lstat(t.Path); plain {
			p.addReference(t, t.Path)
			continue
		}
		at := fspath.ResolveParent(t.Path)
		p.addReference(t, at)
		if to, err := filepath.EvalSymlinks(t.Path); err == nil && to != at {
			p.addReference(t, to)
		}
	}
}

// addReference adds a reference that leads to path now. Through another link it may lead elsewhere the next time.
func (p *Found) addReference(t Reference, path string) {
	root := ""
	for _, r := range p.Roots {
		if fspath.Below(path, r) && (root == "" || len(r) < len(root)) {
			root = r
		}
	}
	if root == "" || p.Covered(path) || p.Named[path] != "" {
		return
	}
	if p.Named == nil {
		p.Named, p.Reasons, p.texts = map[string]string{}, map[string]string{}, map[string]bool{}
	}
	id, mode, ok := fspath.Lstat(path)
	if ok {
		p.texts[cmp.Or(t.text, path)] = true
	}
	if len(p.texts) > maxNamed || len(p.Named) >= maxNames {
		p.Err = fmt.Errorf("git's settings name more than %d paths in writable folders, including %s, and the sandbox can't keep more of them read-only; let the settings name a folder, or fewer files", maxNamed, path)
		return
	}
	p.Named[path], p.Reasons[path] = t.Path, t.Why
	switch {
	case !ok:
		return
	case mode&fs.ModeSymlink != 0:
	case t.Folder && mode.IsDir():
		id = fspath.Persistent(path, id) // its content is kept read-only
		p.ReadOnly = append(p.ReadOnly, path)
	case !mode.IsRegular():
		return
	default:
		p.ReadOnly = append(p.ReadOnly, path)
	}
	made := Origin{Named: t.Path, Top: root}
	if t.via != "" {
		made.Via = []string{t.via}
	}
	p.addMade(root, path, t.Kind, id, made)
}

// DropOlder removes what a command can't have created: files that are only found because somebody else has changed the settings
// since, and that have not changed since the command began.
func (p *Found) DropOlder(start time.Time, before *Found) {
	asked := map[string]bool{}
	for _, name := range before.Named {
		asked[name] = true
	}
	p.Files = slices.DeleteFunc(p.Files, func(x File) bool {
		path := x.AbsPath()
		if p.Named[path] == "" || asked[p.Named[path]] || x.Kind != KindReferenced && x.Kind != KindGitSettings {
			return false
		}
		newest := x.ID.Changed
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			id, _, _ := fspath.Lstat(filepath.Join(path, e.Name()))
			newest = max(newest, id.Changed)
		}
		return newest < start.Add(-fspath.ClockSlack).UnixNano()
	})
}
