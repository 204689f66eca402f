package command

import (
	"slices"
	"strings"
)

// reach says by which of its words a program starts what they name, or reads its commands from where they say.
type reach struct {
	long    []string // options that may be cut short, and have a value behind =
	letters string   // options of one letter, alone or among others
	words   []string // as they are
	text    bool     // the first word that is no option is a program itself
}

// reaching are programs that people allow for what they mostly do. It is only read. Programs whose work is to start others are
// [starters], and those that run files are not seen through.
var reaching = map[string]reach{
	"git": {long: []string{"--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--textconv", "--open-files-in-pager", "--output", "--template",
		"--extcmd", "--config", "--config-env", "--exec-path"}, words: []string{"run", "foreach"}}, // and gitLetters
	"find":  {words: []string{"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"}},
	"fd":    {long: []string{"--exec", "--exec-batch"}, letters: "xX"},
	"rg":    {long: []string{"--pre", "--hostname-bin", "--search-zip"}, letters: "z"},
	"tar":   {long: []string{"--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script"}, letters: "IF"},
	"rsync": {long: []string{"--rsh", "--rsync-path", "--remote-option", "--early-input"}, letters: "eM"},
	"ssh":   {letters: "oFEIwD"},
	"scp":   {letters: "oFS"},
	"sftp":  {letters: "oFSbD"},
	"awk":   {long: []string{"--file", "--exec", "--include", "--load", "--source"}, letters: "feEil", text: true},
	"sed":   {long: []string{"--expression", "--file"}, letters: "ef", text: true},
	"vim":   {long: []string{"--cmd"}, letters: "cSus", words: []string{"+"}},
	"man":   {long: []string{"--pager", "--html", "--preprocessor"}, letters: "PHC"},
	"sort":  {long: []string{"--compress-program"}},
	"zip":   {long: []string{"--unzip-command"}, words: []string{"-TT"}},
	"wget":  {long: []string{"--use-askpass", "--execute", "--config"}, letters: "e"},
	"go":    {words: []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool", "generate"}},
	"cargo": {long: []string{"--config"}},
	"npm":   {long: []string{"--script-shell", "--node-options", "--userconfig", "--globalconfig"}},
	"ip":    {words: []string{"exec"}, letters: "b"},
	"gdb":   {long: []string{"--eval-command", "--init-eval-command", "--command", "--args"}, letters: "x", words: []string{"-ex", "-iex", "-ix"}},
	"nmap":  {long: []string{"--script"}},
}

// gitLetters are the options of one letter by git's subcommands; elsewhere the same letters mean something else.
var gitLetters = map[string]string{"": "c", "clone": "cu", "rebase": "x", "grep": "O", "difftool": "x", "archive": "o"}

// sames are other names of these.
var sames = map[string]string{
	"fdfind": "fd", "gtar": "tar", "bsdtar": "tar", "gawk": "awk", "mawk": "awk", "nawk": "awk", "original-awk": "awk", "gsed": "sed", "vi": "vim", "nvim": "vim",
	"ex": "vim", "view": "vim", "vimdiff": "vim", "pnpm": "npm", "yarn": "npm", "gfind": "find", "gsort": "sort",
}

// Reaches reports whether some of a command's words behind the first n may make its program start what nobody named before them. A
// rule for the first n says nothing about that. A word that is not fixed may be any.
func Reaches(c Command, n int) bool {
	if len(c) == 0 || n >= len(c) {
		return false
	}
	n = max(n, 1)
	name, r, ok := reachOf(c, n)
	return ok && (r.text && !told(c[1:n]) || r.among(name, c[n:], n))
}

// Narrow reports whether a rule for these words leaves no word open that says what else is started.
func Narrow(words []string) bool {
	c := Fixed(words...)
	name, r, ok := reachOf(c, len(c))
	return !ok || !r.among(name, c[1:], 1) && (!r.text || told(c[1:]))
}

// reachOf finds the entry of a command's program; n of the command's words are known before.
func reachOf(c Command, n int) (name string, r reach, ok bool) {
	name = stem(c[0].Text)
	if same := sames[name]; same != "" {
		name = same
	}
	r, ok = reaching[name]
	if name == "git" {
		sub, _ := subcommand(c[1:])
		r.letters = gitLetters[sub]
		if n == 1 || len(c) > 1 && strings.HasPrefix(c[1].Text, "-") {
			r.letters += gitLetters[""]
		}
	}
	return name, r, ok
}

// told reports whether there is a word that is no option.
func told(words Command) bool {
	return slices.ContainsFunc(words, func(w Word) bool { return !strings.HasPrefix(w.Text, "-") })
}

// among looks for such words, the first of which is the command's word at.
func (r reach) among(name string, words Command, at int) bool {
	for i, w := range words {
		if name == "tar" && at+i == 1 && !strings.HasPrefix(w.Text, "-") { // options may stand there without their dash
			w.Text = "-" + w.Text
		}
		if !w.Fixed || r.is(w.Text) || name == "git" && strings.Contains(w.Text, "::") { // a helper for an address
			return true
		}
	}
	return false
}

// is reports whether a word is one of them.
func (r reach) is(word string) bool {
	if slices.Contains(r.words, word) || slices.Contains(r.words, "+") && strings.HasPrefix(word, "+") {
		return true
	}
	if strings.HasPrefix(word, "--") {
		return slices.ContainsFunc(r.long, func(long string) bool { return abbreviates(word, long) })
	}
	return len(word) > 1 && word[0] == '-' && strings.ContainsAny(word[1:], r.letters)
}
