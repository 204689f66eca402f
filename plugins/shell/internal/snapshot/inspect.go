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

// readRC makes a login shell read the user's interactive configuration before it is inspected, discarding its output.
const readRC = "if [ -r ~/.bashrc ]; then . ~/.bashrc; fi >/dev/null 2>&1 </dev/null\n"

// reread is the section with the functions as printed by a shell that has parsed the output of another shell.
const reread = "functions again"

// section is a part of the state, and the builtins that print it.
type section struct{ name, command string }

// sections are the sections of bash. The last ones print what a script can't reproduce, so they must not differ.
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

// view is the state of a shell by section.
type view map[string]string

// inspect runs a shell that first executes the scripts state and prepare, and returns its view. The scripts are passed in variables, as for
// commands, so that a host that parses command lines doesn't have to parse them. Each section begins with a random line.
func (d *dialect) inspect(ctx context.Context, run Run, shell string, flags []string, state, prepare string) (view, error) {
	mark := rand.Text()
	var script strings.Builder
	for _, s := range d.sections {
		fmt.Fprintf(&script, "\\builtin printf '\\n%%s\\n' '%s %s'; { %s; } 2>/dev/null\n", mark, s.name, s.command)
	}
	fmt.Fprintf(&script, "\\builtin printf '\\n%%s\\n' '%s end'\n", mark)
	// Use eval, because zsh parses an entire script before it executes its beginning.
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

// statement is a statement printed by a shell.
type statement struct {
	text string
	stmt *syntax.Stmt
}

// maxOpen is the maximum nesting depth of brackets, because the parser is recursive.
const maxOpen = 4096

// nesting returns the maximum nesting depth of brackets, including those in quotes.
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

// statements parses statements printed by a shell.
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
