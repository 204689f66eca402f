package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
)

// maxOffers bounds the rules that one answer writes, as the user has to read them.
const maxOffers = 5

// offer returns the words of rules that would have answered the question, one for each command that no rule allows: the words that the
// model proposes, if the command begins with them, else all of its words. nil: no rule for one of the commands is narrow enough.
func (r Request) offer(low command.Lowered, left []command.Command) [][]string {
	if !low.Plain || len(left) == 0 || r.RulesErr != nil {
		return nil
	}
	var out [][]string
	for _, c := range left {
		if _, why := command.Extract(c.Argv()).Dangerous(); why != "" {
			return nil
		}
		prefix := r.prefixFor(c)
		if prefix == nil {
			return nil
		}
		if !slices.ContainsFunc(out, func(p []string) bool { return slices.Equal(p, prefix) }) {
			out = append(out, prefix)
		}
	}
	if len(out) > maxOffers {
		return nil
	}
	return out
}

// prefixFor returns the words of a rule for one command; nil: none is narrow enough.
func (r Request) prefixFor(c command.Command) []string {
	if r.Escalation != nil && offerable(r.Escalation.PrefixRule) {
		if prefix := r.Escalation.PrefixRule; startsWith(c, prefix) && !command.Reaches(c, len(prefix)) {
			return prefix
		}
	}
	if argv := c.Argv(); c.Known() && offerable(argv) {
		return argv
	}
	return nil
}

func startsWith(c command.Command, prefix []string) bool {
	if len(c) < len(prefix) {
		return false
	}
	for i, w := range prefix {
		if !c[i].Fixed || c[i].Text != w {
			return false
		}
	}
	return true
}

// offerable reports whether a rule for a prefix is narrow enough. Programs that start other programs, or run code from the words after
// the prefix, are not.
func offerable(prefix []string) bool {
	if len(prefix) == 0 || prefix[0] == "" {
		return false
	}
	for i, w := range prefix {
		if _, ok := command.Homoglyphs(w, i == 0); ok {
			return false // the user may take it for another word
		}
		if !utf8.ValidString(w) || strings.ContainsFunc(w, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return false // the user has to see all of it
		}
	}
	name := command.Name(prefix[0])
	if command.Starts(name) || name == "rm" || name == "osascript" {
		return false
	}
	if !command.Narrow(prefix) {
		return false
	}
	bare, ok := interpreters[name]
	if !ok {
		return true
	}
	return len(prefix) > 2 || len(prefix) == 2 && !slices.Contains(bare, prefix[1])
}

// interpreters are programs that run code from the words after the listed ones.
var interpreters = map[string][]string{
	"bash": {"-c", "-lc", "-i", "-l"}, "sh": {"-c", "-lc"}, "zsh": {"-c", "-lc"}, "dash": {"-c", "-lc"}, "ksh": {"-c", "-lc"}, "fish": {"-c", "-lc"},
	"cmd": {"/c", "/k"}, "powershell": {"-Command", "-c", "-File", "-EncodedCommand"}, "pwsh": {"-Command", "-c", "-File", "-EncodedCommand"},
	"git": {}, "python": {"-", "-c", "-m"}, "python3": {"-", "-c", "-m"}, "py": {"-3", "-", "-c"}, "pypy": {"-", "-c"}, "pypy3": {"-", "-c"},
	"pythonw": {"-", "-c"}, "pyw": {"-", "-c"}, "node": {"-", "-e", "-p"}, "nodejs": {"-", "-e", "-p"}, "perl": {"-", "-e", "-E"}, "ruby": {"-", "-e"},
	"php": {"-", "-r"}, "lua": {"-", "-e"}, "julia": {"-", "-e"}, "Rscript": {"-", "-e"}, "deno": {"eval", "run"}, "bun": {"-e", "run", "x"},
	"npm": {"run", "exec", "x"}, "pnpm": {"run", "exec", "dlx"}, "yarn": {"run", "dlx"}, "npx": {}, "docker": {"run", "exec"}, "kubectl": {"exec"}, "ssh": {},
}
