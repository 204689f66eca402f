package box

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// aside is what the name of something that was moved out of the way ends with: git executes hooks by their exact names.
const aside = ".quarantined"

// Moved is what a process in a box has made and must not have: it was moved aside. With no To it is what may be made, and is worth
// a look: it stays.
type Moved struct {
	From, To string // absolute
	Why      string
	Changed  bool // it stays, with fewer rights
}

// quarantine moves aside what was not there before and was not opened. Paths are resolved within their root, so that no link leads out of it.
func quarantine(before map[identity]bool, opened []string, after *parts) (moved []Moved, err error) {
	var failed error
	for _, p := range after.list {
		if before[p.id] || isOpen(p.full(), opened) || insideAny(p.full(), opened) {
			continue
		}
		m, err := p.moveAside()
		if err != nil && !absent(err) && failed == nil {
			failed = fmt.Errorf("%s is executed later and could not be moved aside; look at it and remove it: %w", p.full(), err)
		}
		if m != nil {
			moved = append(moved, *m)
		}
	}
	if after.cut && failed == nil {
		failed = fmt.Errorf("there are more than %d folders to look through for repositories and settings that were made; give the sandbox narrower writable_roots", maxFolders)
	}
	return moved, failed
}

// moveAside renames a part. Settings of git that name no program may stay; of others those lines are kept that may.
func (p part) moveAside() (*Moved, error) {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	why := map[kind]string{
		kindFolder:   "it would say what agents may do",
		kindHook:     "git would execute it",
		kindSettings: "it may name programs for git to execute",
		kindOther:    "it may name programs for a version control to execute",
		kindClosed:   "what is in it can't be looked through",
		kindStartup:  "your shells or your desktop would execute it",
		kindLink:     "no sandbox can keep a link read-only",
		kindDenied:   "`sandbox { deny_read, deny_write }` names it",
		kindRights:   "it would give its owner's rights to whoever executes it",
	}[p.kind]
	if p.kind == kindRights {
		return &Moved{From: p.full(), Why: why, Changed: true}, p.disown(root)
	}
	var harmless []byte
	if p.kind == kindSettings {
		info, err := root.Lstat(p.path)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			all, err := readAll(root, p.path)
			if err != nil {
				return nil, err
			}
			if harmless = harmlessSettings(all, p.holds); len(harmless) == len(all) {
				return nil, nil
			}
		}
	}
	to, err := freeName(root, p.path)
	if err != nil {
		return nil, err
	}
	if err := root.Rename(p.path, to); err != nil {
		return nil, err
	}
	m := &Moved{From: p.full(), To: part{root: p.root, path: to}.full(), Why: why}
	if harmless == nil {
		return m, nil
	}
	f, err := root.OpenFile(p.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return m, err
	}
	_, err = f.Write(harmless)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return m, err
}

// disown makes a program one that runs with the rights of whoever starts it.
func (p part) disown(root *os.Root) error {
	info, err := root.Lstat(p.path)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return root.Chmod(p.path, info.Mode().Perm())
}

// holds reports whether a working tree that settings name lies in the same root: into another one git would write what a command has
// committed. Git takes it from the folder of its settings.
func (p part) holds(tree string) bool {
	if filepath.IsAbs(tree) {
		return false
	}
	to, err := filepath.EvalSymlinks(filepath.Dir(p.full()) + "/" + tree)
	return err == nil && (to == p.root || below(to, p.root))
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

// freeName finds a name beside path that nobody has.
func freeName(root *os.Root, path string) (string, error) {
	for n := 1; n <= 1000; n++ {
		to := asideName(path, n)
		if _, err := root.Lstat(to); absent(err) {
			return to, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("there are 1000 like it already")
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
