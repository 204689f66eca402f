package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// Extraction is the wide reading of a command line.
type Extraction struct {
	// Commands are all that stand anywhere in it: also in substitutions, loops and functions, and what programs that start other
	// programs are told to start. A command that starts another one is there beside it.
	Commands []Command
	// Unresolved are the places where it only shows when it runs what is started, as they stand in the script.
	Unresolved []string
	// Err says why a part could not be read; nil: all was.
	Err error
}

// Bounds of what is followed: commands in commands, commands in all, and words that are looked at, where a word counts each time. A
// script that is read again costs a word for a few of its bytes.
const (
	maxDepth     = 8
	maxCommands  = 10_000
	maxWords     = 1 << 20
	bytesPerWord = 4
)

var (
	errDeep = fmt.Errorf("commands stand more than %d deep in one another", maxDepth)
	errMany = fmt.Errorf("it starts more than %d commands, or the same ones in too many ways", maxCommands)
)

// Extract reads a command line widely.
func Extract(argv []string) Extraction {
	var x extractor
	x.command(Fixed(argv...), noInput, 0)
	return x.Extraction
}

// ExtractScript reads the text of a script, or what somebody types into a shell.
func ExtractScript(script string) Extraction {
	var x extractor
	x.script(script, syntax.LangBash, 0)
	return x.Extraction
}

// Incomplete reports whether a shell would wait for more before it runs any of the last command of a text.
func Incomplete(script string) bool { return shellsyntax.Incomplete(script) }

type extractor struct {
	Extraction
	spent int // words that were looked at
}

// spend accounts for words to look at. false: no more are looked at, and the extraction has failed.
func (x *extractor) spend(words int) bool {
	if x.spent > maxWords {
		return false
	}
	if x.spent += words; x.spent > maxWords {
		x.fail(errMany)
		return false
	}
	return true
}

func (x *extractor) fail(err error) { x.Err = errors.Join(x.Err, err) }

func (x *extractor) unresolved(what string) { x.Unresolved = append(x.Unresolved, what) }

// script reads as far as it goes: a shell runs the commands before a mistake, too.
func (x *extractor) script(text string, variant syntax.LangVariant, depth int) {
	if depth > maxDepth {
		x.fail(errDeep)
		return
	}
	if !x.spend(1 + len(text)/bytesPerWord) {
		return
	}
	var failed error
	for s, err := range shellsyntax.Statements(text, variant) {
		if err != nil {
			failed = err
		} else {
			x.stmt(s, depth)
		}
	}
	switch {
	case failed == nil:
	case errors.Is(failed, shellsyntax.ErrLarge), errors.Is(failed, shellsyntax.ErrNul):
		x.fail(failed)
	case variant == syntax.LangZsh: // its grammar is not all known; the other shell's is close
		x.script(text, syntax.LangBash, depth)
	default:
		x.fail(failed)
	}
}

// stmt finds the simple commands of a statement, with where their input comes from.
func (x *extractor) stmt(s *syntax.Stmt, depth int) {
	syntax.Walk(s, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if call, ok := n.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				x.command(readAll(call.Args), inputOf(n), depth)
			}
		case *syntax.Assign:
			x.assign(n, depth)
		case *syntax.ParamExp:
			if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word != nil && n.Exp.Word.Lit() == "P" { // expanded like a prompt
				x.unresolved(sourceOf(n))
			}
		case *syntax.LetClause, *syntax.TestClause, *syntax.ArithmCmd, *syntax.ArithmExp:
			x.quoted(n, depth)
		}
		return true
	})
}

// assign follows a value, and a subscript in quotes.
func (x *extractor) assign(a *syntax.Assign, depth int) {
	if a.Name == nil { // an argument of declare and its like
		if a.Value != nil {
			x.subscripted(read(a.Value), depth)
		}
		return
	}
	if a.Index != nil {
		x.quoted(a.Index, depth)
	}
	if a.Value != nil {
		for _, w := range read(a.Value) {
			x.assigned(a.Name.Value, w, depth)
		}
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				x.subscripted(read(e.Value), depth)
			}
		}
	}
}

// quoted follows the subscripts in the quoted words of an expression: arithmetic evaluates them again. Expressions nest, and each is
// walked through with all in it.
func (x *extractor) quoted(n syntax.Node, depth int) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok && fixed(w) {
			x.subscripted(read(w), depth)
		}
		return x.spend(1)
	})
}

// input is what a command reads from.
type input struct {
	text  string // that stands in the script
	known bool
}

var noInput = input{}

func inputOf(s *syntax.Stmt) input {
	in := noInput
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = document(r.Hdoc)
		case syntax.WordHdoc:
			in = document(r.Word)
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			if r.N == nil || r.N.Value == "0" {
				in = noInput
			}
		}
	}
	return in
}

// document is a text behind << or <<<. What would be expanded in it can't be known.
func document(w *syntax.Word) input {
	if w == nil {
		return input{known: true}
	}
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return noInput
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, in := range p.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok {
					return noInput
				}
				b.WriteString(lit.Value)
			}
		default:
			return noInput
		}
	}
	return input{text: b.String(), known: true}
}

// command notes a command and follows what it starts.
func (x *extractor) command(c Command, in input, depth int) {
	if len(c) == 0 {
		return
	}
	if depth > maxDepth {
		x.fail(errDeep)
		return
	}
	if !x.spend(len(c)) {
		return
	}
	if len(x.Commands) == maxCommands {
		x.spend(maxWords)
		return
	}
	x.Commands = append(x.Commands, c)
	if !c[0].Fixed {
		x.unresolved(c[0].Text)
		return
	}
	name := stem(c[0].Text)
	switch {
	case isShell(name):
		x.shell(name, c, in, depth)
	case isForeign(name):
		x.unresolved(strings.Join(c.Argv(), " "))
	case name == "trap":
		x.trap(c, depth)
	case name == "find":
		x.find(c, depth)
	case name == "fd" || name == "fdfind":
		x.fd(c, depth)
	case name == "alias":
		x.alias(c, depth)
	case name == "." || name == "source":
		if args := c[1:]; len(args) > 0 {
			x.sourced(args[0], c, in, syntax.LangBash, depth)
		}
	case slices.Contains(launchers, name):
		x.launched(c, in, depth)
	default:
		if _, ok := starters[name]; ok || isLoader(name) {
			x.start(name, c, in, depth)
		}
	}
	x.embedded(name, c, in, depth)
	if slices.Contains(evaluating, name) {
		x.subscripted(c[1:], depth)
	}
}

// text follows words that are, joined, a script.
func (x *extractor) text(c Command, variant syntax.LangVariant, depth int) {
	if !c.known() {
		x.unresolved(strings.Join(c.Argv(), " "))
		return
	}
	x.script(strings.Join(c.Argv(), " "), variant, depth)
}
