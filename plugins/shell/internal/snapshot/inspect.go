package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/process/shellstate"
	"mvdan.cc/sh/v3/syntax"
)

// readRC is what a login shell reads of the user's interactive set-up before it is looked at. What that prints is nobody's.
const readRC = "if [ -r ~/.bashrc ]; then . ~/.bashrc; fi >/dev/null 2>&1 </dev/null\n"

// reread is the section with the functions as a shell says them that has read them from what another one said.
const reread = "functions again"

// section is one view of the state, and the builtins that print it.
type section struct{ name, command string }

// sections are those of bash. The last ones print what no script can repeat, so that it must not differ.
var sections = []section{
	{"options", `\builtin shopt -p`},
	{"variables", `\builtin declare -p`},
	{"functions", `\builtin declare -f`},
	{"exported functions", `\builtin declare -F`},
	{"mask", `\builtin umask -p`},
	{"set", `\builtin set +o`},
	{"aliases", `\builtin alias -p`},
	{"folder", `\builtin pwd -P`},
	{"traps", `\builtin trap -p`},
	{"limits", `\builtin ulimit -S -a; \builtin ulimit -H -a`},
}

// unrepeatable are the sections that must be the same before and after.
var unrepeatable = [...]string{"folder", "traps", "limits"}

// view is what a shell says of itself, by section.
type view map[string]string

// inspect runs a shell that is first brought into a state, does what prepare says, and returns what it says of itself. The scripts
// go in variables, as a state does: a host that reads command lines need not make sense of them. Each section begins with a
// line that nothing else prints.
func (d *dialect) inspect(ctx context.Context, run Run, shell string, flags []string, state, prepare string) (view, error) {
	mark := rand.Text()
	var script strings.Builder
	for _, s := range d.sections {
		fmt.Fprintf(&script, "\\builtin printf '\\n%%s\\n' '%s %s'; { %s; } 2>/dev/null\n", mark, s.name, s.command)
	}
	fmt.Fprintf(&script, "\\builtin printf '\\n%%s\\n' '%s end'\n", mark)
	// A text of its own: zsh reads all of one before it runs the first of it.
	all := state + "\neval '" + strings.ReplaceAll(prepare+script.String(), "'", `'\''`) + "'"
	env := variables(all)
	out, err := run(ctx, append(append([]string{shell}, flags...), shellstate.Script(len(env), "")), env)
	if err != nil {
		return nil, err
	}
	v := view{}
	_, rest, _ := strings.Cut(string(out), "\n"+mark+" ")
	for rest != "" {
		name, body, _ := strings.Cut(rest, "\n")
		if name == "end" {
			return v, nil
		}
		v[name], rest, _ = strings.Cut(body, "\n"+mark+" ")
	}
	return nil, errors.New("the shell ended early")
}

// statement is one statement that a shell printed.
type statement struct {
	text string
	stmt *syntax.Stmt
}

// maxOpen bounds the brackets that are open at once in what is parsed: the grammar's parser is recursive.
const maxOpen = 4096

// nesting is how many brackets are open at once at most, also in quotes.
func nesting(text string) (deepest int) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
		deepest = max(deepest, depth)
	}
	return deepest
}

// statements reads what a shell printed to be read again.
func statements(text string) ([]statement, error) {
	if nesting(text) > maxOpen {
		return nil, errors.New("its brackets are nested too deeply")
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	out := make([]statement, len(file.Stmts))
	for i, s := range file.Stmts {
		out[i] = statement{text[s.Pos().Offset():s.End().Offset()], s}
	}
	return out, nil
}
