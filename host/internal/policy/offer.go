package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
)

// maxOffers bounds the rules that one answer writes: a person has to read them.
const maxOffers = 5

// offer finds the words of rules that would have answered the question: for each command that no rule allows those that the model
// proposes, where it begins with them, else all of its words. nil: some command has no rule that would be narrow enough, so that
// the same question would come again.
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

// prefixFor is the rule for one command; nil: none would be narrow enough.
func (r Request) prefixFor(c command.Command) []string {
	if r.Escalation != nil && offerable(r.Escalation.PrefixRule) {
		if prefix := r.Escalation.PrefixRule; startsWith(c, prefix) && !command.Reaches(c, len(prefix)) {
			return prefix
		}
	}
	for _, w := range c {
		if !w.Fixed {
			return nil
		}
	}
	if argv := c.Argv(); offerable(argv) {
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

// offerable reports whether a rule for a prefix says what would run. What starts other programs, or runs text that comes behind the
// prefix, is anything.
func offerable(prefix []string) bool {
	if len(prefix) == 0 || prefix[0] == "" {
		return false
	}
	for i, w := range prefix {
		if _, alike := command.Lookalike(w, i == 0); alike {
			return false // it may pass for another one
		}
		if !utf8.ValidString(w) || strings.ContainsFunc(w, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return false // a person has to see what it says
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

// interpreters are programs that run whatever stands behind the words listed here.
var interpreters = map[string][]string{
	"bash": {"-c", "-lc", "-i", "-l"}, "sh": {"-c", "-lc"}, "zsh": {"-c", "-lc"}, "dash": {"-c", "-lc"}, "ksh": {"-c", "-lc"}, "fish": {"-c", "-lc"},
	"cmd": {"/c", "/k"}, "powershell": {"-Command", "-c", "-File", "-EncodedCommand"}, "pwsh": {"-Command", "-c", "-File", "-EncodedCommand"},
	"git": {}, "python": {"-", "-c", "-m"}, "python3": {"-", "-c", "-m"}, "py": {"-3", "-", "-c"}, "pypy": {"-", "-c"}, "pypy3": {"-", "-c"},
	"pythonw": {"-", "-c"}, "pyw": {"-", "-c"}, "node": {"-", "-e", "-p"}, "nodejs": {"-", "-e", "-p"}, "perl": {"-", "-e", "-E"}, "ruby": {"-", "-e"},
	"php": {"-", "-r"}, "lua": {"-", "-e"}, "julia": {"-", "-e"}, "Rscript": {"-", "-e"}, "deno": {"eval", "run"}, "bun": {"-e", "run", "x"},
	"npm": {"run", "exec", "x"}, "pnpm": {"run", "exec", "dlx"}, "yarn": {"run", "dlx"}, "npx": {}, "docker": {"run", "exec"}, "kubectl": {"exec"}, "ssh": {},
}
