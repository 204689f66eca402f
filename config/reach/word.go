package reach

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// state is what is known at a point in a line.
type state struct {
	dirs   []string            // folders in which the shell may be
	lost   string              // a `cd` that could not be followed; empty if there is none
	vars   map[string]variable // in addition to the environment
	self   string              // the script that is being followed; empty for the line itself
	stdin  bool                // a shell or interpreter reads code from standard input
	loose  []word              // words and redirections that may be that code
	code   bool                // an interpreter reads it, which may load modules
	writes bool                // the line creates files, which it may run
}

// variable holds the possible values of a variable.
type variable struct {
	values  []string
	unknown bool
	covered bool // it names files that are covered already
}

func (f *follower) start() *state {
	return &state{dirs: []string{f.q.Dir}, vars: map[string]variable{}}
}

// word is a word of a command with its possible values.
type word struct {
	text    string   // as written
	values  []string // possible values
	unknown bool     // it may have other values
	covered bool     // it is a file that is covered already
	glob    bool     // the shell matches it against file names
	tail    string   // literal end of an unknown word
	from    bool     // a redirection
	named   bool     // named by code that may run it
}

// fixed returns words with known values.
func fixed(values ...string) []word {
	out := make([]word, len(values))
	for i, v := range values {
		out[i] = word{text: v, values: []string{v}}
	}
	return out
}

// is reports whether a word certainly has one of these values.
func (w word) is(list ...string) bool {
	return len(w.values) == 1 && slices.Contains(list, w.values[0])
}

func (w word) first() string {
	if len(w.values) == 0 {
		return ""
	}
	return w.values[0]
}

var errUnknown = errors.New("unknown before it runs")

// resolve determines the possible values of a word.
func (f *follower) resolve(w *syntax.Word, s *state) word {
	out := word{text: print(w)}
	var used []string
	syntax.Walk(w, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && !slices.Contains(used, p.Param.Value) {
			used = append(used, p.Param.Value)
			out.unknown = out.unknown || p.Excl // the value of another variable
		}
		return true
	})
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			out.glob = out.glob || globbing(p.Value)
		case *syntax.ExtGlob, *syntax.BraceExp:
			out.glob = true
		}
	}
	choices := []map[string]string{{}}
	for _, name := range used {
		v, ok := s.vars[name]
		if !ok {
			continue
		}
		if out.covered = out.covered || v.covered; v.covered {
			continue
		}
		out.unknown = out.unknown || v.unknown
		var next []map[string]string
		for _, c := range choices {
			for _, value := range v.values {
				if len(next) >= maxChoices {
					out.unknown = true
					break
				}
				n := map[string]string{name: value}
				for k, v := range c {
					n[k] = v
				}
				next = append(next, n)
			}
		}
		choices = next
	}
	if out.covered {
		return out
	}
	for _, dir := range s.dirs {
		for _, c := range choices {
			text, err := literal(f.config(c, s, dir), w)
			if err != nil || strings.ContainsRune(text, 0) {
				out.unknown = true
				continue
			}
			if !slices.Contains(out.values, text) {
				out.values = append(out.values, text)
			}
		}
	}
	if len(choices) == 0 {
		out.unknown = true
	}
	if out.unknown {
		out.tail = tail(w)
	}
	return out
}

// literal expands a word. The library panics on constructs that it does not support.
func literal(cfg *expand.Config, w *syntax.Word) (text string, err error) {
	defer func() {
		if recover() != nil {
			err = errUnknown
		}
	}()
	return expand.Literal(cfg, w)
}

// config returns the expansion of words in a folder.
func (f *follower) config(choice map[string]string, s *state, dir string) *expand.Config {
	env := expand.FuncEnviron(func(name string) string {
		if v, ok := choice[name]; ok {
			return v
		}
		if _, ok := s.vars[name]; ok {
			return ""
		}
		switch name {
		case "PWD":
			return dir
		case "0", "BASH_SOURCE":
			return s.self
		}
		return f.env[name]
	})
	return &expand.Config{Env: env, NoUnset: true, CmdSubst: func(w io.Writer, c *syntax.CmdSubst) error {
		text, ok := f.substitute(c, s, dir)
		if !ok {
			return errUnknown
		}
		_, err := io.WriteString(w, text)
		return err
	}}
}

// substitute returns the output of a command substitution, for those that only print a folder.
func (f *follower) substitute(c *syntax.CmdSubst, s *state, dir string) (string, bool) {
	if len(c.Stmts) != 1 {
		return "", false
	}
	words := func(n syntax.Command) []string {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Assigns) > 0 {
			return nil
		}
		var out []string
		for _, a := range call.Args {
			w := f.resolve(a, &state{dirs: []string{dir}, vars: s.vars, self: s.self})
			if w.unknown || w.covered || w.glob || len(w.values) != 1 {
				return nil
			}
			out = append(out, w.values[0])
		}
		return out
	}
	if and, ok := c.Stmts[0].Cmd.(*syntax.BinaryCmd); ok && and.Op == syntax.AndStmt {
		to, pwd := operands(words(and.X.Cmd)), operands(words(and.Y.Cmd))
		if len(to) == 2 && to[0] == "cd" && len(pwd) == 1 && pwd[0] == "pwd" {
			path := f.absolute(dir, to[1])
			return path, isFolder(path)
		}
		return "", false
	}
	argv := operands(words(c.Stmts[0].Cmd))
	switch {
	case len(argv) == 1 && argv[0] == "pwd":
		return dir, true
	case len(argv) == 2 && argv[0] == "dirname":
		return filepath.Dir(argv[1]), true
	case len(argv) == 2 && argv[0] == "basename":
		return filepath.Base(argv[1]), true
	case len(argv) == 2 && (argv[0] == "realpath" || argv[0] == "readlink"):
		path, err := filepath.EvalSymlinks(f.absolute(dir, argv[1]))
		return path, err == nil
	case len(argv) == 2 && argv[0] == "git" && argv[1] == "rev-parse":
		for at := dir; ; at = filepath.Dir(at) {
			if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
				return at, true
			}
			if at == filepath.Dir(at) {
				return "", false
			}
		}
	}
	return "", false
}

// operands returns the words that are not options, and the name.
func operands(words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return len(w) > 1 && w[0] == '-' })
}

// globbing reports whether unquoted text contains a pattern for file names.
func globbing(lit string) bool {
	for i := 0; i < len(lit); i++ {
		switch lit[i] {
		case '\\':
			i++
		case '*', '?':
			return true
		case '[':
			if strings.Contains(lit[i:], "]") {
				return true
			}
		case '{':
			if strings.Contains(lit[i:], "}") {
				return true
			}
		}
	}
	return false
}

// tail returns the literal text at the end of a word.
func tail(w *syntax.Word) string {
	var parts []syntax.WordPart
	for _, p := range w.Parts {
		if q, ok := p.(*syntax.DblQuoted); ok {
			parts = append(parts, q.Parts...)
			continue
		}
		parts = append(parts, p)
	}
	out := ""
	for _, p := range slices.Backward(parts) {
		switch p := p.(type) {
		case *syntax.Lit:
			out = p.Value + out
		case *syntax.SglQuoted:
			out = p.Value + out
		default:
			return out
		}
	}
	return out
}

// print returns the source of a node.
func print(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n); err != nil {
		return "…"
	}
	return strings.TrimSpace(b.String())
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) (regular, executable bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, false
	}
	return true, info.Mode()&0o111 != 0
}
