package gitconfig

import (
	"bytes"
	"regexp"
	"strings"
)

// The plainest spelling of git's settings, which git itself writes. These expressions recognise, they do not parse: a line in any
// other spelling counts as harmful.
var (
	sectionLine = regexp.MustCompile(`^\[([A-Za-z0-9.-]+)(?: "[^"\\\x00-\x1f]*")?\]$`)
	valueLine   = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9-]*)(?: = ([^\\"#;\x00-\x08\x0a-\x1f]*))?$`)
	emptyLine   = regexp.MustCompile(`^\s*(?:[#;][^\x00]*)?$`)
)

// harmlessKeys are the keys, by section, that only describe a repository. "*" is every key.
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

// HarmlessLines returns b without the lines that may be harmful. within says whether a working tree may stay.
func HarmlessLines(b []byte, within func(tree string) bool) []byte {
	if bytes.ContainsRune(b, 0) || bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return []byte{}
	}
	out := make([]byte, 0, len(b))
	keys := "" // of the section; none before the first and in an unknown one
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
	if strings.HasPrefix(strings.TrimSpace(value), "!") || strings.Contains(value, "::") { // a command, or a remote helper
		return false
	}
	return keys == "*" || strings.Contains(" "+keys+" ", " "+strings.ToLower(key)+" ")
}
