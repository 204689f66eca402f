package command

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// embeds lists the options of a program whose values are command lines.
type embeds struct {
	letters string   // short options, alone or in a cluster; the value is attached or the next word
	values  string   // other short options that have a value
	long    []string // long options, which may be abbreviated
	words   []string // options that can't be abbreviated; the value follows = or is the next word
	begins  []string // prefixes of words that are command lines after it
}

// embedding has the programs that run command lines from their options, by name. It is read-only.
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

// embeddingGit has git's options of that kind, by subcommand; "" is git itself.
var embeddingGit = map[string]embeds{
	"": {letters: "c", values: "C"}, "clone": {letters: "cu", values: "bjo", long: []string{"--config", "--upload-pack"}},
	"rebase": {letters: "x", values: "sXC", long: []string{"--exec"}}, "difftool": {letters: "x", values: "tOSGl", long: []string{"--extcmd"}}, "grep": {letters: "O", values: "ABCefm", long: []string{"--open-files-in-pager"}},
	"fetch": {long: []string{"--upload-pack"}}, "pull": {long: []string{"--upload-pack"}}, "ls-remote": {long: []string{"--upload-pack", "--exec"}}, "fetch-pack": {long: []string{"--upload-pack", "--exec"}},
	"push": {long: []string{"--receive-pack", "--exec"}}, "send-pack": {long: []string{"--receive-pack", "--exec"}}, "archive": {long: []string{"--exec"}}, "daemon": {long: []string{"--access-hook"}},
	"send-email":    {long: []string{"--sendmail-cmd", "--smtp-server", "--to-cmd", "--cc-cmd", "--header-cmd"}},
	"filter-branch": {long: []string{"--setup", "--env-filter", "--tree-filter", "--index-filter", "--parent-filter", "--msg-filter", "--commit-filter", "--tag-name-filter"}},
	"config":        {begins: []string{""}},
}

// reading lists programs that run commands from their input, or read a program with -f.
var reading = []string{"sed", "awk", "make", "ed", "at", "batch", "crontab", "vim"}

// reads reports whether such a program reads commands from standard input or another descriptor.
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

// embedded extracts the command lines in a command's options.
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
		if slices.ContainsFunc(own, func(w Word) bool { return abbreviates(w.Text, "--config-env") }) { // the value is the name of a variable
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
		// They turn a name into another program or into a builtin from a file, and a key into a command.
		if option(c[1:], 'p', "", 3) || option(c[1:], 'f', "", 3) || option(c[1:], 'x', "", 3) {
			x.unresolved(strings.Join(c.Argv(), " "))
		}
	case ".", "source":
	default:
		x.values(embedding[name], c[1:], depth)
	}
}

// values extracts from the values of the options in e.
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

// valuePrefix matches what may precede a command line in the value of an option: the name of a setting, the mark of a shell.
var valuePrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z][\w.-]*\s*[= ])?\s*(?:exec=|[!|:]*\s*)?(?:shell |!)?`)
})

func (x *extractor) maybeWord(w Word, depth int) {
	if !w.Fixed {
		x.unresolved(w.Text)
		return
	}
	x.maybe(w.Text, depth)
}

// maybe extracts from a text that may be a command line, with and without a [valuePrefix]. If it can't be parsed, it is unresolved.
func (x *extractor) maybe(text string, depth int) {
	if words := strings.ReplaceAll(text, ",", " "); words != text && !strings.ContainsAny(text, " \t\n") { // gcc -wrapper
		x.maybe(words, depth)
	}
	rest := text[len(valuePrefix().FindString(text)):]
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

// evaluated extracts from the substitutions in a text that a shell expands later, such as a subscript or a prompt.
func (x *extractor) evaluated(text string, depth int) {
	switch {
	case !strings.ContainsAny(text, "$`"):
	case strings.ContainsAny(text, `"\`):
		x.unresolved(text)
	default:
		x.maybe(`: "`+text+`"`, depth)
	}
}

// subscripted extracts from the subscripts in the words of a builtin that treats them as variables or arithmetic.
func (x *extractor) subscripted(words Command, depth int) {
	for _, w := range words {
		if at := strings.IndexByte(w.Text, '['); at >= 0 && w.Fixed {
			x.evaluated(w.Text[at:], depth)
		}
	}
}

// commandVariables are variables whose values are command lines, fileVariables those that name files with commands, and prompts those that
// bash expands.
var (
	commandVariables = []string{
		"PROMPT_COMMAND", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "FCEDIT", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER",
		"GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "GIT_PROXY_COMMAND", "RSYNC_RSH", "CVS_RSH", "MAKEFLAGS",
	}
	fileVariables = []string{"GIT_CONFIG_PARAMETERS", "TAR_OPTIONS", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_AUDIT", "ZDOTDIR", "INPUTRC", "GIT_EXEC_PATH"}
	prompts       = []string{"PS0", "PS1", "PS2", "PS4"}
)

// assigned extracts from the value of a variable.
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
	case strings.Contains(value.Text, "["): // arithmetic evaluates the value of a variable
		x.subscripted(Command{value}, depth)
	}
}

// awkStarts matches what starts commands in an awk program: system() and a pipe, but not `||`.
var awkStarts = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`system\s*\(|(^|[^|])\|([^|]|$)`) })

// awk extracts from an awk program. Its strings may be parts of command lines, so what starts commands is unresolved as well.
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
		if !w.Fixed || awkStarts().MatchString(text) {
			x.unresolved("awk " + w.Text)
			for _, literal := range awkStrings().FindAllString(text, -1) {
				x.maybe(strings.Trim(literal, `"`), depth)
			}
		}
		if !strings.HasPrefix(w.Text, "-") && c[i].Text != "-e" {
			return // the program; files follow
		}
	}
}

var awkStrings = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"]*"`) })

// sedStarts matches what may be the command e, or the flag e of s, in a sed program: at the beginning of a command and after its address,
// alone between other characters, and after other flags.
var sedStarts = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(?:^|[;{}])\s*(?:(?:[0-9]+|\$)[0-9,~+$!\s]*)?e|(?:^|[^a-zA-Z\\])e(?:[^a-zA-Z]|$)|[^a-zA-Z0-9\s][gpIiMm0-9]+e[gpIiMm0-9]*\s*(?:$|[;}#])|(?:^|[;{}])\s*[/\\].*[^a-zA-Z0-9]I?!?\s*e`)
})

// sed examines sed programs: the values of -e, or else the first word that is not an option.
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
		if !p.Fixed || sedStarts().MatchString(p.Text) {
			x.unresolved("sed " + p.Text)
		}
	}
}

// make marks options and variables of make that it evaluates like a makefile as unresolved.
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

// isInput reports whether a file name means the standard input.
func isInput(word string) bool {
	return word == "/dev/stdin" || word == "/dev/fd/0" || word == "/proc/self/fd/0" || word == "/proc/thread-self/fd/0"
}

// isDescriptor reports whether a file name means an open descriptor.
func isDescriptor(word string) bool {
	return strings.HasPrefix(word, "/dev/fd/") || strings.HasPrefix(word, "/proc/") && strings.Contains(word, "/fd/")
}

// sourced extracts from a file that is run as a script, if its content is part of the command line.
func (x *extractor) sourced(file Word, c Command, in input, variant syntax.LangVariant, depth int) {
	home := strings.HasPrefix(file.Text, "~/") || strings.HasPrefix(strings.TrimPrefix(file.Text, `"`), "$HOME/")
	switch {
	case isInput(file.Text) && in.known:
		x.script(in.text, variant, depth+1)
	case !file.Fixed && !home || isInput(file.Text) || isDescriptor(file.Text):
		x.unresolved(strings.Join(c.Argv(), " "))
	}
}

// launchers start a command that follows their own words. Unlike for [starters], users permanently allow some of their uses.
var launchers = []string{
	"valgrind", "perf", "proot", "firejail", "bwrap", "cpulimit", "tsocks", "torsocks", "proxychains", "proxychains4", "eatmydata", "faketime", "xvfb-run", "dbus-launch", "ssh-agent",
	"start-stop-daemon", "uv", "npx", "poetry", "pipenv", "pdm", "hatch", "bundle", "rlwrap", "chpst", "softlimit", "setuidgid", "mpirun", "mpiexec", "srun", "rr", "heaptrack", "entr", "tmux", "screen",
	"direnv", "mise", "asdf", "rbenv", "pyenv", "volta", "corepack", "dotenv", "cross-env", "chronic", "ifne", "logsave", "setlock", "zargs", "pnpx", "bunx", "gdb", "capsh", "xterm", "sem",
}

// launched treats each word of a launcher as the beginning of a command.
func (x *extractor) launched(c Command, in input, depth int) {
	for i := 1; i < len(c); i++ {
		if c[i].Fixed && !strings.HasPrefix(c[i].Text, "-") {
			x.command(c[i:], in, depth+1)
		}
	}
}
