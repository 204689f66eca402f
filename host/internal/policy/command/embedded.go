package command

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// embeds says which options of a program have a command line as their value.
type embeds struct {
	letters string   // options of one letter, alone or behind others; the value is attached or the next word
	values  string   // other letters that have a value
	long    []string // may be abbreviated
	words   []string // options as they are; the value is behind = or the next word
	begins  []string // words that are a command line themselves behind this
}

// embedding are programs that start what an option says, by name. It is only read.
var embedding = map[string]embeds{
	"tar": {letters: "IF", values: "fbXCTgHKNLVP", long: []string{"--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script"}},
	"ssh": {letters: "o", values: "bcDEeFIiJLlmOpQRSWw"}, "scp": {letters: "oSD", values: "cFiJlPX"}, "sftp": {letters: "oSD", values: "BbcFiJlPRs"},
	"rsync": {letters: "e", values: "fTBM", long: []string{"--rsh", "--rsync-path"}}, "split": {long: []string{"--filter"}}, "sort": {long: []string{"--compress-program"}},
	"rg": {long: []string{"--pre", "--hostname-bin"}}, "zip": {long: []string{"--unzip-command"}, words: []string{"-TT"}},
	"vim": {letters: "c", values: "TSuUiPrswW", long: []string{"--cmd"}, begins: []string{"+"}}, "less": {begins: []string{"+"}}, "man": {letters: "PH", values: "CLmMsSeER", long: []string{"--pager", "--html"}},
	"gdb": {letters: "x", long: []string{"--eval-command", "--init-eval-command"}, words: []string{"-ex", "-iex", "-ix"}},
	"go":  {words: []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"}}, "wget": {long: []string{"--use-askpass"}},
	"gcc": {words: []string{"-wrapper"}}, "sqlite3": {words: []string{"-cmd"}, begins: []string{".shell", ".system", ".once", "."}},
	"mapfile": {letters: "C", values: "dnOscu"}, "readarray": {letters: "C", values: "dnOscu"}, "compgen": {letters: "CW", values: "AFGPSX"}, "complete": {letters: "CW", values: "AFGPSX"},
	"ncat": {letters: "ec", long: []string{"--exec", "--sh-exec"}}, "nc": {letters: "ec"}, "socat": {begins: []string{"EXEC:", "SYSTEM:", "exec:", "system:", "Exec:", "System:"}},
	"bind": {letters: "x"}, "nix-shell": {long: []string{"--run", "--command"}}, "hyperfine": {letters: "pcs", long: []string{"--prepare", "--cleanup", "--setup", "--conclude"}, begins: []string{""}},
}

// embeddingGit is git's part of it, by subcommands; its own options are those of "".
var embeddingGit = map[string]embeds{
	"": {letters: "c", values: "C"}, "clone": {letters: "cu", values: "bjo", long: []string{"--config", "--upload-pack"}},
	"rebase": {letters: "x", values: "sXC", long: []string{"--exec"}}, "difftool": {letters: "x", values: "tOSGl", long: []string{"--extcmd"}}, "grep": {letters: "O", values: "ABCefm", long: []string{"--open-files-in-pager"}},
	"fetch": {long: []string{"--upload-pack"}}, "pull": {long: []string{"--upload-pack"}}, "ls-remote": {long: []string{"--upload-pack", "--exec"}}, "fetch-pack": {long: []string{"--upload-pack", "--exec"}},
	"push": {long: []string{"--receive-pack", "--exec"}}, "send-pack": {long: []string{"--receive-pack", "--exec"}}, "archive": {long: []string{"--exec"}}, "daemon": {long: []string{"--access-hook"}},
	"send-email":    {long: []string{"--sendmail-cmd", "--smtp-server", "--to-cmd", "--cc-cmd", "--header-cmd"}},
	"filter-branch": {long: []string{"--setup", "--env-filter", "--tree-filter", "--index-filter", "--parent-filter", "--msg-filter", "--commit-filter", "--tag-name-filter"}},
	"config":        {begins: []string{""}},
}

// reading are programs that start what they read, or read a program with -f.
var reading = []string{"sed", "awk", "make", "ed", "at", "batch", "crontab", "vim"}

// reads reports whether such a program reads what is on the command line, or in a pipe.
func reads(name string, c Command, in input) bool {
	switch {
	case !slices.Contains(reading, name):
		return false
	case name == "sed" || name == "awk" || name == "make":
		return slices.ContainsFunc(c[1:], func(w Word) bool { return w.Text == "-" || w.Text == "-f-" || isInput(w.Text) || isDescriptor(w.Text) }) &&
			slices.ContainsFunc(c[1:], func(w Word) bool {
				return strings.HasPrefix(w.Text, "-f") || strings.HasPrefix(w.Text, "--f") || strings.HasPrefix(w.Text, "--makefile")
			})
	case name == "crontab":
		return slices.ContainsFunc(c[1:], func(w Word) bool { return w.Text == "-" || isInput(w.Text) })
	}
	return in.known || name == "at" || name == "batch"
}

// embedded follows the command lines in a command's options.
func (x *extractor) embedded(name string, c Command, in input, depth int) {
	if same := sames[name]; same != "" {
		name = same
	}
	if reads(name, c, in) {
		x.unresolved(strings.Join(c.Argv(), " ") + " (reads commands from its input)")
	}
	switch name {
	case "git":
		sub, args := subcommand(c[1:])
		own := c[1 : len(c)-len(args)]
		if slices.ContainsFunc(own, func(w Word) bool { return abbreviates(w.Text, "--config-env") }) { // the value is a variable's
			x.unresolved(strings.Join(c.Argv(), " "))
		}
		x.values(embeddingGit[""], own, depth)
		x.values(embeddingGit[sub], args, depth)
		for i, w := range args {
			if _, address, ok := strings.Cut(w.Text, "ext::"); ok {
				x.maybe(address, depth)
			}
			switch {
			case sub == "submodule" && w.Text == "foreach":
				x.maybe(strings.Join(args[i+1:].Argv(), " "), depth)
			case sub == "bisect" && w.Text == "run":
				x.command(args[i+1:], noInput, depth+1)
			}
		}
	case "awk":
		x.awk(c, depth)
	case "sed":
		x.sed(c)
	case "make":
		x.make(c)
	case "hash", "enable", "bind":
		// A name becomes another program or a builtin from a file, a key a command.
		if option(c[1:], 'p', "", 3) || option(c[1:], 'f', "", 3) || option(c[1:], 'x', "", 3) {
			x.unresolved(strings.Join(c.Argv(), " "))
		}
	case ".", "source":
	default:
		x.values(embedding[name], c[1:], depth)
	}
}

// values follows the values of the options that e lists.
func (x *extractor) values(e embeds, words Command, depth int) {
	for i, w := range words {
		if !x.spend(1) {
			return
		}
		next := func() {
			if i+1 < len(words) {
				x.maybeWord(words[i+1], depth)
			}
		}
		name, value, attached := strings.Cut(w.Text, "=")
		switch {
		case slices.Contains(e.words, name):
			if attached {
				x.maybe(value, depth)
			} else {
				next()
			}
		case strings.HasPrefix(w.Text, "--"):
			if slices.ContainsFunc(e.long, func(long string) bool { return abbreviates(w.Text, long) }) {
				if attached {
					x.maybeWord(Word{Text: value, Fixed: w.Fixed}, depth)
				} else {
					next()
				}
			}
		case len(w.Text) > 1 && w.Text[0] == '-' && e.letters != "":
			at := strings.IndexAny(w.Text[1:], e.letters+e.values)
			switch {
			case at < 0 || !strings.Contains(e.letters, w.Text[at+1:at+2]):
			case at+2 < len(w.Text):
				x.maybeWord(Word{Text: w.Text[at+2:], Fixed: w.Fixed}, depth)
			default:
				next()
			}
		default:
			for _, prefix := range e.begins {
				if text, ok := strings.CutPrefix(w.Text, prefix); ok {
					x.maybe(text, depth)
					break
				}
			}
		}
	}
}

// notes are what stands before a command line in the values of options: names of settings, marks of a shell.
var notes = regexp.MustCompile(`^(?:[A-Za-z][\w.-]*\s*[= ])?\s*(?:exec=|[!|:]*\s*)?(?:shell |!)?`)

func (x *extractor) maybeWord(w Word, depth int) {
	if !w.Fixed {
		x.unresolved(w.Text)
		return
	}
	x.maybe(w.Text, depth)
}

// maybe follows a text that may be a command line, with and without what may stand before one. That it can't be read means that
// what it starts isn't known.
func (x *extractor) maybe(text string, depth int) {
	if words := strings.ReplaceAll(text, ",", " "); words != text && !strings.ContainsAny(text, " \t\n") { // gcc -wrapper
		x.maybe(words, depth)
	}
	rest := text[len(notes.FindString(text)):]
	for i, script := range []string{text, rest} {
		if i > 0 && rest == text || strings.TrimSpace(script) == "" {
			continue
		}
		sub := extractor{spent: x.spent}
		sub.script(script, syntax.LangBash, depth+1)
		x.Commands, x.spent = append(x.Commands, sub.Commands...), sub.spent
		if i > 0 || rest == text {
			x.Unresolved = append(x.Unresolved, sub.Unresolved...)
			if sub.Err != nil {
				x.unresolved(text)
			}
		}
	}
}

// evaluated follows the substitutions in a text that a shell expands later: a subscript, a prompt.
func (x *extractor) evaluated(text string, depth int) {
	switch {
	case !strings.ContainsAny(text, "$`"):
	case strings.ContainsAny(text, `"\`):
		x.unresolved(text)
	default:
		x.maybe(`: "`+text+`"`, depth)
	}
}

// subscripted follows the words of a builtin that takes them for variables or arithmetic, where they have a subscript.
func (x *extractor) subscripted(words Command, depth int) {
	for _, w := range words {
		if at := strings.IndexByte(w.Text, '['); at >= 0 && w.Fixed {
			x.evaluated(w.Text[at:], depth)
		}
	}
}

// commandVariables are the variables whose value programs take for a command line, fileVariables those for a file with commands, and
// prompts those that bash expands.
var (
	commandVariables = []string{
		"PROMPT_COMMAND", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "FCEDIT", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER",
		"GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "GIT_PROXY_COMMAND", "RSYNC_RSH", "CVS_RSH", "MAKEFLAGS",
	}
	fileVariables = []string{"GIT_CONFIG_PARAMETERS", "TAR_OPTIONS", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_AUDIT", "ZDOTDIR", "INPUTRC", "GIT_EXEC_PATH"}
	prompts       = []string{"PS0", "PS1", "PS2", "PS4"}
)

// assigned follows a value that a variable gets.
func (x *extractor) assigned(name string, value Word, depth int) {
	sets := slices.Contains(commandVariables, name) || strings.HasPrefix(name, "GIT_CONFIG_VALUE_")
	switch {
	case slices.Contains(fileVariables, name) && value.Text != "":
		x.unresolved(name + "=" + value.Text)
	case !value.Fixed && (sets || slices.Contains(prompts, name)):
		x.unresolved(name + "=" + value.Text)
	case !value.Fixed:
	case sets:
		x.maybe(value.Text, depth)
	case slices.Contains(prompts, name):
		x.evaluated(value.Text, depth)
	case strings.Contains(value.Text, "["): // arithmetic takes a variable's value for an expression
		x.subscripted(Command{value}, depth)
	}
}

// awkStarts finds what starts commands in a program of awk: system() and a pipe, but not `||`.
var awkStarts = regexp.MustCompile(`system\s*\(|(^|[^|])\|([^|]|$)`)

// awk: its strings are not followed, they are put together as the program runs.
func (x *extractor) awk(c Command, depth int) {
	for i, w := range c[1:] {
		text := w.Text
		switch {
		case strings.HasPrefix(text, "--"):
			name, value, _ := strings.Cut(text, "=")
			if !abbreviates(name, "--source") {
				continue
			}
			text = value
		case text == "-e", text == "-f", text == "-F", text == "-v":
			continue
		case strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "-e"):
			continue
		case i > 0 && (c[i].Text == "-F" || c[i].Text == "-v" || c[i].Text == "-f"):
			continue
		}
		if !w.Fixed || awkStarts.MatchString(text) {
			x.unresolved("awk " + w.Text)
			for _, literal := range awkStrings.FindAllString(text, -1) {
				x.maybe(strings.Trim(literal, `"`), depth)
			}
		}
		if !strings.HasPrefix(w.Text, "-") && c[i].Text != "-e" {
			return // the program; files follow
		}
	}
}

var awkStrings = regexp.MustCompile(`"[^"]*"`)

// sedStarts finds what may be the command e, or the flag e of s, in a program of sed: at the begin of a command and behind its address, alone
// between other characters, and behind other flags.
var sedStarts = regexp.MustCompile(`(?m)(?:^|[;{}])\s*(?:(?:[0-9]+|\$)[0-9,~+$!\s]*)?e|(?:^|[^a-zA-Z\\])e(?:[^a-zA-Z]|$)|[^a-zA-Z0-9\s][gpIiMm0-9]+e[gpIiMm0-9]*\s*(?:$|[;}#])|(?:^|[;{}])\s*[/\\].*[^a-zA-Z0-9]I?!?\s*e`)

// sed: the programs are the values of -e, else the first word that is no option.
func (x *extractor) sed(c Command) {
	var programs Command
	var first *Word
	named := false
	for i := 1; i < len(c); i++ {
		w := c[i]
		switch {
		case strings.HasPrefix(w.Text, "--"):
			name, value, attached := strings.Cut(w.Text, "=")
			if !abbreviates(name, "--expression") {
				continue
			}
			named = true
			if attached {
				programs = append(programs, Word{Text: value, Fixed: w.Fixed})
			} else if i++; i < len(c) {
				programs = append(programs, c[i])
			}
		case len(w.Text) > 1 && w.Text[0] == '-':
			at := strings.IndexAny(w.Text, "efil")
			if at < 0 || w.Text[at] == 'i' || w.Text[at] == 'l' {
				continue
			}
			named = true
			value := Word{Text: w.Text[at+1:], Fixed: w.Fixed}
			if value.Text == "" {
				if i++; i == len(c) {
					continue
				}
				value = c[i]
			}
			if w.Text[at] == 'e' {
				programs = append(programs, value)
			}
		case first == nil:
			first = &c[i]
		}
	}
	if !named && first != nil {
		programs = append(programs, *first)
	}
	for _, p := range programs {
		if !p.Fixed || sedStarts.MatchString(p.Text) {
			x.unresolved("sed " + p.Text)
		}
	}
}

// make: what --eval says, and what a variable's value says, is read like the file, which is not followed.
func (x *extractor) make(c Command) {
	for _, w := range c[1:] {
		name, value, set := strings.Cut(w.Text, "=")
		switch {
		case strings.HasPrefix(w.Text, "--"):
			if abbreviates(name, "--eval") && name != "--e" {
				x.unresolved("make " + w.Text)
			}
		case strings.HasPrefix(w.Text, "-"):
			if strings.Contains(w.Text, "E") {
				x.unresolved("make " + w.Text)
			}
		case set && (strings.Contains(name, "SHELL") || strings.Contains(name, "!") || strings.Contains(value, "$(shell") || strings.Contains(value, "${shell")):
			x.unresolved("make " + w.Text)
		}
	}
}

// stdin are the names under which a program's input is a file.
func isInput(word string) bool {
	return word == "/dev/stdin" || word == "/dev/fd/0" || word == "/proc/self/fd/0" || word == "/proc/thread-self/fd/0"
}

// isDescriptor reports whether a file is what another descriptor leads to.
func isDescriptor(word string) bool {
	return strings.HasPrefix(word, "/dev/fd/") || strings.HasPrefix(word, "/proc/") && strings.Contains(word, "/fd/")
}

// sourced follows a file that is read as a script, where the command line has it.
func (x *extractor) sourced(file Word, c Command, in input, variant syntax.LangVariant, depth int) {
	home := strings.HasPrefix(file.Text, "~/") || strings.HasPrefix(strings.TrimPrefix(file.Text, `"`), "$HOME/")
	switch {
	case isInput(file.Text) && in.known:
		x.script(in.text, variant, depth+1)
	case !file.Fixed && !home || isInput(file.Text) || isDescriptor(file.Text):
		x.unresolved(strings.Join(c.Argv(), " "))
	}
}

// launchers start a command that stands somewhere behind their own words. Unlike of [starters], of these people allow some uses for good.
var launchers = []string{
	"valgrind", "perf", "proot", "firejail", "bwrap", "cpulimit", "tsocks", "torsocks", "proxychains", "proxychains4", "eatmydata", "faketime", "xvfb-run", "dbus-launch", "ssh-agent",
	"start-stop-daemon", "uv", "npx", "poetry", "pipenv", "pdm", "hatch", "bundle", "rlwrap", "chpst", "softlimit", "setuidgid", "mpirun", "mpiexec", "srun", "rr", "heaptrack", "entr", "tmux", "screen",
	"direnv", "mise", "asdf", "rbenv", "pyenv", "volta", "corepack", "dotenv", "cross-env", "chronic", "ifne", "logsave", "setlock", "zargs", "pnpx", "bunx", "gdb", "capsh", "xterm", "sem",
}

// launched takes each word of a launcher for the begin of a command.
func (x *extractor) launched(c Command, in input, depth int) {
	for i := 1; i < len(c); i++ {
		if c[i].Fixed && !strings.HasPrefix(c[i].Text, "-") {
			x.command(c[i:], in, depth+1)
		}
	}
}
