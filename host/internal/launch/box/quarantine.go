package box

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/evict"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Moved is what a process in a box has made and must not have: it was moved aside. With no To it is what may be made, and is worth
// a look: it stays.
type Moved struct {
	From, To string // absolute
	Why      string
	Changed  bool // it stays, with fewer rights
}

// Stays reports whether it is where a command has made or changed it, as it is.
func (m Moved) Stays() bool { return m.To == "" && !m.Changed }

// quarantine moves aside what was not there before and was not opened. Paths are resolved within their root, so that no link leads out of
// it. stuck are the parts that are still there and could not even be made harmless. again says that something else was moved aside instead
// of a part, so that it has to be looked again.
func quarantine(was past, opened []string, after *parts) (moved []Moved, stuck []stuckPart, again bool, err error) {
	seen := map[string]bool{} // a path may be found in more than one way
	was.marks = map[string][]string{}
	for _, p := range after.list {
		if p.kind == kindRepository || seen[p.full()] || was.known[p.id] || isOpen(p.full(), opened) || fspath.BelowAny(p.full(), opened) {
			continue
		}
		x := was.instead(p, after.roots, seen)
		if x == nil || x.kind == kindMade && p.harmless() {
			continue
		}
		again = again || x.kind == kindMade
		seen[x.full()] = true
		m, err := x.moveAside()
		if err != nil && !fspath.IsNotExist(err) {
			stuck = append(stuck, stuckPart{*x, err})
		}
		if m != nil {
			moved = append(moved, *m)
		}
	}
	switch {
	case len(stuck) > 0:
		err = stuck[0].refusal()
	case after.err != nil:
		err = after.err
	}
	return moved, stuck, again, err
}

// why says of a kind of part why it may not stay.
func (k kind) why() string {
	switch k {
	case kindFolder:
		return "it would say what agents may do"
	case kindHook:
		return "git would execute it"
	case kindSettings:
		return "it may name programs for git to execute"
	case kindOther:
		return "it may name programs for a version control to execute"
	case kindClosed:
		return "what is in it can't be looked through"
	case kindStartup:
		return "your shells or your desktop would execute it"
	case kindLink:
		return "no sandbox can keep a link read-only"
	case kindDenied:
		return "`sandbox { deny_read, deny_write }` names it"
	case kindRights:
		return "it would give its owner's rights to whoever executes it"
	case kindNamed:
		return "others execute it: git's settings or your PATH lead there"
	case kindMade:
		return "by it git, or another program, would execute what was there before"
	case kindRootLink:
		return "a folder of `sandbox { writable_roots }` would lie where it leads"
	case kindRepository, kindUnknown:
	}
	return "it is executed later"
}

// moveAside renames a part. Settings of git that name no program may stay; of others those lines are kept that may. What can't be renamed
// is made harmless where it is.
func (p part) moveAside() (*Moved, error) {
	in, err := evict.Open(p.root, p.path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if p.kind == kindRights {
		return &Moved{From: p.full(), Why: p.kind.why(), Changed: true}, in.DropSetID()
	}
	var harmless []byte
	if p.kind == kindSettings {
		info, err := in.Folder.Lstat(in.Name)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			all, err := readAll(in.Folder, in.Name)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
			if harmless = harmlessSettings(all, p.holds); err == nil && len(harmless) == len(all) {
				return nil, nil
			}
		}
	}
	to, err := in.Rename()
	if err != nil {
		if p.mine || in.Disable() != nil {
			return nil, err
		}
		return &Moved{From: p.full(), Why: p.kind.why(), Changed: true}, nil
	}
	m := &Moved{From: p.full(), To: filepath.Join(filepath.Dir(p.full()), to), Why: p.kind.why()}
	if harmless == nil {
		return m, nil
	}
	f, err := in.Folder.OpenFile(in.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return m, nil // it lacks settings that a command has made
	}
	_, _ = f.Write(harmless)
	_ = f.Close()
	return m, nil
}

// harmless reports whether it is a file of settings that names no program.
func (p part) harmless() bool {
	if p.kind != kindSettings {
		return false
	}
	in, err := evict.Open(p.root, p.path)
	if err != nil {
		return fspath.IsNotExist(err)
	}
	defer in.Close()
	info, err := in.Folder.Lstat(in.Name)
	if err != nil || !info.Mode().IsRegular() {
		return fspath.IsNotExist(err)
	}
	all, err := readAll(in.Folder, in.Name)
	return err == nil && len(harmlessSettings(all, p.holds)) == len(all)
}

// holds reports whether a working tree that settings name lies in the same root: into another one git would write what a command has
// committed. Git takes it from the folder of its settings.
func (p part) holds(tree string) bool {
	if filepath.IsAbs(tree) {
		return false
	}
	to, err := filepath.EvalSymlinks(filepath.Dir(p.full()) + "/" + tree)
	return err == nil && (to == p.root || fspath.Below(to, p.root))
}

// maxSettings bounds what is read of a repository's settings; what is longer is moved aside as a whole.
const maxSettings = 1 << 20

func readAll(root *os.Root, path string) ([]byte, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // as in gitDir
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if len(b) > maxSettings {
		b = append(b[:0:0], '\x00') // nothing of it is kept
	}
	return b, err
}

// What git's settings may say without naming a program, in the plainest spelling, which is git's own. This recognises; it
// does not parse: a line in any other spelling is taken for the worst.
var (
	sectionLine = regexp.MustCompile(`^\[([A-Za-z0-9.-]+)(?: "[^"\\\x00-\x1f]*")?\]$`)
	valueLine   = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9-]*)(?: = ([^\\"#;\x00-\x08\x0a-\x1f]*))?$`)
	emptyLine   = regexp.MustCompile(`^\s*(?:[#;][^\x00]*)?$`)
)

// harmlessKeys are settings by section: what only describes a repository. "*" is any key.
var harmlessKeys = map[string]string{
	"core":        "repositoryformatversion filemode bare logallrefupdates symlinks ignorecase precomposeunicode autocrlf safecrlf eol sparsecheckout sparsecheckoutcone compression bigfilethreshold worktree",
	"remote":      "url pushurl fetch push mirror tagopt prune promisor partialclonefilter",
	"branch":      "remote merge rebase pushremote",
	"user":        "name email",
	"author":      "name email",
	"committer":   "name email",
	"submodule":   "url active branch",
	"extensions":  "objectformat partialclone worktreeconfig refstorage",
	"lfs":         "repositoryformatversion",
	"init":        "defaultbranch",
	"pull":        "*",
	"fetch":       "*",
	"push":        "*",
	"index":       "*",
	"advice":      "*",
	"color":       "*",
	"pack":        "threads windowmemory compression",
	"gc":          "auto autodetach",
	"commitgraph": "*",
	"maintenance": "auto strategy",
	"rerere":      "enabled",
	"status":      "*",
	"log":         "date abbrevcommit decorate follow",
	"merge":       "ff conflictstyle",
	"rebase":      "autosquash autostash updaterefs",
	"diff":        "algorithm colormoved renames mnemonicprefix",
	"transfer":    "fsckobjects",
	"checkout":    "defaultremote",
	"worktree":    "guessremote",
	"blame":       "ignorerevsfile",
	"versionsort": "*",
	"column":      "*",
	"tag":         "sort",
	"feature":     "*",
	"fsck":        "*",
	"receive":     "denycurrentbranch",
	"commit":      "verbose",
	"format":      "pretty",
	"apply":       "whitespace",
	"i18n":        "*",
	"notes":       "rewriteref displayref",
	"stash":       "showpatch showstat",
	"protocol":    "version",
}

// harmlessSettings keeps the lines that may stay. It is as long as b when all may. within says which working trees may.
func harmlessSettings(b []byte, within func(tree string) bool) []byte {
	if bytes.ContainsRune(b, 0) || bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return []byte{}
	}
	out := make([]byte, 0, len(b))
	keys := "" // of the section; before the first, and in an unknown one, none
	for line := range bytes.Lines(b) {
		text := strings.TrimSuffix(string(line), "\n")
		if m := sectionLine.FindStringSubmatch(text); m != nil {
			known := false
			if keys, known = harmlessKeys[strings.ToLower(m[1])]; known {
				out = append(out, line...)
			}
			continue
		}
		if emptyLine.MatchString(text) && !strings.HasSuffix(text, `\`) {
			out = append(out, line...)
			continue
		}
		if m := valueLine.FindStringSubmatch(text); m != nil && harmlessSetting(keys, m[1], m[2]) && (!strings.EqualFold(m[1], "worktree") || within(strings.TrimSpace(m[2]))) {
			out = append(out, line...)
		}
	}
	return out
}

func harmlessSetting(keys, key, value string) bool {
	if strings.HasPrefix(strings.TrimSpace(value), "!") || strings.Contains(value, "::") { // a command, a helper
		return false
	}
	return keys == "*" || strings.Contains(" "+keys+" ", " "+strings.ToLower(key)+" ")
}
