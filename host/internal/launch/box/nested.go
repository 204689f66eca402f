package box

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/evict"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// Below the first level of a writable root anybody may make what is executed later: a repository with hooks, settings of an
// agent. What is there already is kept read-only; what a process has made is moved aside. Both need to know where such things lie: see
// [index].

// nestedNames are executed later, or say what may be, wherever they lie.
var nestedNames = []string{".git", ".agents", ".codex", ".gantry", ".hg", ".jj", ".sl", "_darcs", ".repo", ".bzr", ".pijul"}

// kind is what makes a path worth looking at.
type kind int

const (
	kindUnknown    kind = iota
	kindFolder          // an agent's settings: never made in a box
	kindHook            // what git executes
	kindSettings        // what may name programs for git
	kindOther           // what may name programs for another version control
	kindClosed          // a folder in which files may be reached and can't be listed
	kindRights          // a program that gives its owner's rights to whoever starts it
	kindStartup         // what the user's shells and desktop execute
	kindLink            // a protected name that no sandbox could keep as it is
	kindDenied          // what deny_read or deny_write names
	kindNamed           // what git's settings, or the user's PATH, name
	kindRepository      // a repository's own folder: known, and never moved aside
	kindMade            // what has made another part one
	kindRootLink        // a link in the place of a writable root, or on the way to it
)

// part is a path that is executed later, or says what is.
type part struct {
	root string // the writable root, and
	path string // the path below it
	kind kind
	id   fspath.Identity
	made origin
	mine bool // it was there before the oldest command that runs in the root
}

func (p part) full() string { return filepath.Join(p.root, p.path) }

// parts are what was found.
type parts struct {
	list  []part
	hold  []string // what of it is kept read-only, absolute
	trees []*grown // of the outermost roots
	links string   // changes when names of files that have others may have
	moved bool     // some folders were gone when they were to be looked at
	roots []string
	whole []string // protected paths below the roots' first level that are read-only with all that is in them
	namer *namer
	named map[string]string // what git's settings name in the roots, whether it is there or not, as they name it
	why   map[string]string // of those
	texts map[string]bool   // by which those that are there are named
	err   error             // why they can't be followed
	// open makes folders be listed that can't be; those that were so before have nothing new in them.
	open map[fspath.Identity]bool
}

// startup is what is executed from the user's home whenever a shell, git, another tool or a desktop is started. Where it lies in a writable
// root it stays as it is.
var startup = []string{
	// Shells, terminals, the desktop.
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
	".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".config/bash", ".config/zsh", ".config/fish", ".config/nushell", ".config/powershell", ".config/direnv", ".config/mise",
	".config/starship.toml", ".inputrc", ".oh-my-zsh", ".oh-my-bash", ".zinit", ".zplug", ".antigen", ".fzf.bash", ".fzf.zsh", ".xprofile", ".xinitrc", ".xsession",
	".xsessionrc", ".pam_environment", ".config/autostart", ".config/systemd/user", ".config/environment.d", ".config/plasma-workspace", ".local/share/applications",
	".local/share/dbus-1/services", ".config/kitty", ".config/alacritty", ".config/wezterm", ".wezterm.lua", ".config/zellij", ".tmux.conf", ".config/tmux", ".tmux", ".screenrc",
	"Library/LaunchAgents",
	// What is found by PATH, and what manages versions of it.
	".local/bin", "bin", ".cargo/bin", ".cargo/env", "go/bin", ".bun/bin", ".deno/bin", ".local/share/pnpm", ".nvm", ".pyenv/bin", ".pyenv/shims", ".rbenv/bin", ".rbenv/shims",
	".asdf/bin", ".asdf/shims", ".asdf/asdf.sh", ".volta/bin", ".sdkman/bin", ".ghcup/env", ".ghcup/bin",
	// Settings of tools that name programs.
	".gitconfig", ".config/git", ".hgrc", ".config/hg", ".config/jj", ".config/sapling", ".ssh/config", ".ssh/authorized_keys", ".ssh/authorized_keys2", ".ssh/rc",
	".ssh/environment", ".gnupg/gpg.conf", ".gnupg/gpg-agent.conf", ".docker/config.json", ".docker/cli-plugins", ".kube/config", ".config/containers", ".npmrc", ".yarnrc",
	".yarnrc.yml", ".bunfig.toml", ".pnpmfile.cjs", ".cargo/config.toml", ".cargo/config", ".config/go/env", ".config/pip", ".pip", ".pypirc", ".condarc", ".gemrc", ".bazelrc",
	".gradle/init.gradle", ".gradle/init.gradle.kts", ".gradle/init.d", ".gradle/gradle.properties", ".m2/settings.xml", ".mavenrc", ".terraformrc", ".config/gh", ".mailcap",
	// Interpreters, debuggers, editors, agents.
	".pythonrc", ".pythonrc.py", ".pdbrc", "usercustomize.py", "sitecustomize.py", ".ipython", ".irbrc", ".pryrc", ".Rprofile", ".perldb", ".gdbinit", ".config/gdb", ".lldbinit",
	".psqlrc", ".sqliterc", ".vimrc", ".vim", ".gvimrc", ".exrc", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".config/helix", ".nanorc", ".vscode/extensions",
	".vscode-server/extensions", ".config/Code/User", ".cursor", ".claude", ".claude.json", ".gemini", ".config/opencode", ".config/goose",
}

func atHome(home string) []string {
	out := make([]string, 0, len(startup))
	for _, name := range startup {
		out = append(out, filepath.Join(home, name))
	}
	return out
}

// startup notes what is executed from the user's home and lies in root.
func (p *parts) startup(root, home string) {
	var site []string
	if python := filepath.Join(home, ".local/lib"); fspath.Below(python, root) { // files there are executed with each start of an interpreter
		site, _ = filepath.Glob(filepath.Join(python, "python*/site-packages"))
	}
	for _, path := range append(atHome(home), site...) {
		if !fspath.Below(path, root) {
			continue
		}
		id, mode, ok := fspath.Lstat(path)
		switch {
		case !ok:
			continue
		case mode.IsDir():
			id = fspath.Persistent(path, id) // its content is kept read-only
			fallthrough
		case mode.IsRegular():
			p.hold = append(p.hold, path)
		case mode&fs.ModeSymlink != 0:
			if to, err := filepath.EvalSymlinks(path); err == nil && fspath.BelowAny(to, p.roots) {
				p.hold = append(p.hold, to)
			}
		}
		p.add(root, path, kindStartup, id)
	}
}

// visit notes what is in a folder of a root. again: it could not be listed, and now it can.
func (p *parts) visit(root string, f *tree.Folder) (again bool) {
	if f.Closed {
		return p.closed(root, f.Path)
	}
	switch {
	case filepath.Base(f.Path) == ".git" || !isRepository(f.Marks):
	case len(f.Path) > maxReachable:
		p.deep(root, f.Path, filepath.Join(f.Path, "HEAD")) // without it it is no repository
	default:
		p.repository(root, f.Path, "")
		p.settings(f.Path, f.Path)
	}
	for _, name := range f.Rights {
		path := filepath.Join(f.Path, name)
		if id, _, ok := fspath.Lstat(path); ok {
			p.add(root, path, kindRights, id)
		}
	}
	for _, name := range f.Named {
		if !slices.Contains(enteredNames, name) {
			p.name(root, filepath.Join(f.Path, name))
		}
	}
	return false
}

// held reports whether a path lies in what is read-only as a whole: names there are as good as outside.
func (p *parts) held(path string) bool {
	return slices.Contains(p.whole, path) || fspath.BelowAny(path, p.whole)
}

// tops notes what lies at the first level of the roots in one and is protected only there, and links that no sandbox could be made with.
func (p *parts) tops(outer string) {
	for _, root := range p.roots {
		if root != outer && !fspath.Below(root, outer) {
			continue
		}
		for _, name := range Protected {
			path := filepath.Join(root, name)
			id, mode, ok := fspath.Lstat(path)
			switch {
			case !ok || slices.Contains(p.whole, path):
			case mode&fs.ModeSymlink != 0:
				p.add(outer, path, kindLink, id)
			case !slices.Contains(nestedNames, name):
				p.add(outer, path, kindFolder, fspath.Persistent(path, id))
				p.hold = append(p.hold, path)
			}
		}
	}
}

// maxReachable is how long the path of a repository may be so that all that is executed in it can be named.
const maxReachable = 3800

// deep handles what lies at a longer path as a whole: where it is new, what makes it what it is goes.
func (p *parts) deep(root, path, needs string) {
	id, _, ok := fspath.Lstat(path)
	if !ok {
		return
	}
	p.add(root, needs, kindClosed, fspath.Persistent(path, id))
	if len(path) < fspath.MaxPath {
		p.hold = append(p.hold, path)
	}
}

// name handles one of nestedNames.
func (p *parts) name(root, path string) {
	id, mode, ok := fspath.Lstat(path)
	if ok && filepath.Base(path) == ".git" {
		p.settings(enclosing(filepath.Dir(path)))
	}
	switch own := others[filepath.Base(path)]; {
	case !ok || slices.Contains(p.whole, path):
	case len(path) > maxReachable:
		p.deep(root, path, path)
	case own != nil:
		p.others(root, path, own)
	case filepath.Base(path) != ".git":
		p.add(root, path, kindFolder, fspath.Persistent(path, id)) // its content is kept read-only
		p.hold = append(p.hold, path)
	case mode.IsDir():
		p.repository(root, path, "")
	case mode&fs.ModeSymlink != 0:
		if to, err := filepath.EvalSymlinks(path); err == nil {
			p.elsewhere(to, path)
		}
	case mode == 0:
		p.elsewhere(gitDir(path), path)
	}
}

// elsewhere is for a repository's own folder that via leads to, if commands may write it.
func (p *parts) elsewhere(dir, via string) {
	for _, root := range p.roots {
		if dir == root || fspath.Below(dir, root) {
			p.repository(root, dir, via)
			return
		}
	}
}

// closed handles a folder that can't be listed, though what is in it can be reached by its name, as git does with hooks, or will be once
// its owner has given the right back. One that was so before stays read-only; one that is new is opened. It reports whether it was.
func (p *parts) closed(root, path string) (opened bool) {
	id, mode, ok := fspath.Lstat(path)
	if !ok || !mode.IsDir() || !fspath.Searchable(path) && !fspath.LacksRights(path) {
		return false
	}
	if p.open == nil || p.open[id] {
		p.add(root, path, kindClosed, id)
		p.hold = append(p.hold, path)
		return false
	}
	return evict.MakeListable(root, path) == nil
}

// repository notes what git executes for the repository whose own folder dir is. Of a worktree much of it lies with the repository
// that it belongs to. via is the file or link that leads there; empty: none.
func (p *parts) repository(root, dir, via string) {
	made := origin{repositories: []string{dir}, top: dir}
	if via != "" {
		made.via = []string{via}
	}
	p.executed(root, dir, made)
	if common := commonDir(dir); common != "" && common != dir {
		for _, root := range p.roots {
			if (common == root || fspath.Below(common, root)) && !p.held(common) {
				made.repositories = []string{common, dir}
				p.executed(root, common, made)
				return
			}
		}
	}
}

func (p *parts) executed(root, dir string, made origin) {
	if id, _, ok := fspath.Lstat(dir); ok {
		p.add(root, dir, kindRepository, fspath.Persistent(dir, id))
	}
	hooks := filepath.Join(dir, "hooks")
	switch id, mode, ok := fspath.Lstat(hooks); {
	case !ok:
	case !mode.IsDir(): // a link: what it leads to may change
		p.addMade(root, hooks, kindHook, id, made)
	default:
		p.hold = append(p.hold, hooks)
		entries, err := os.ReadDir(hooks)
		if errors.Is(err, fs.ErrPermission) && p.closed(root, hooks) {
			entries, _ = os.ReadDir(hooks)
		}
		for _, e := range entries {
			if name := e.Name(); !strings.HasSuffix(name, ".sample") && !strings.Contains(name, fspath.QuarantineSuffix) {
				if id, _, ok := fspath.Lstat(filepath.Join(hooks, name)); ok {
					p.addMade(root, filepath.Join(hooks, name), kindHook, id, made)
				}
			}
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		path := filepath.Join(dir, name)
		if id, mode, ok := fspath.Lstat(path); ok {
			p.addMade(root, path, kindSettings, id, made)
			if mode.IsRegular() {
				p.hold = append(p.hold, path)
			}
		}
	}
}

func (p *parts) add(root, path string, k kind, id fspath.Identity) {
	p.addMade(root, path, k, id, origin{})
}

func (p *parts) addMade(root, path string, k kind, id fspath.Identity, made origin) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return
	}
	p.list = append(p.list, part{root: root, path: rel, kind: k, id: id, made: made})
}
