package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// Extraction is the broad analysis of a command line.
type Extraction struct {
	// Commands are all commands anywhere in it, including those in substitutions, loops and functions, and those that other commands
	// start. A command that starts another one is listed as well.
	Commands []Command
	// Unresolved has the source of the parts whose commands are only known when they run.
	Unresolved []string
	// Err says why a part could not be analysed.
	Err error
}

// Bounds of the analysis.
const (
	maxDepth     = 8       // of commands in commands
	maxCommands  = 10_000  // in total
	maxWords     = 1 << 20 // in total; a word that is examined again counts again
	bytesPerWord = 4       // of a script, which counts as words when it is parsed
)

var (
	errDeep = fmt.Errorf("commands are nested more than %d levels deep", maxDepth)
	errMany = fmt.Errorf("it starts more than %d commands, or the same ones in too many ways", maxCommands)
)

// Extract analyses a command line broadly.
func Extract(argv []string) Extraction {
	var x extractor
	x.command(Fixed(argv...), noInput, 0)
	return x.Extraction
}

// ExtractScript analyses a script, or input of a shell.
func ExtractScript(script string) Extraction {
	var x extractor
	x.script(script, syntax.LangBash, 0)
	return x.Extraction
}

// Incomplete reports whether a shell would wait for more input before it runs the last command of a text.
func Incomplete(script string) bool { return shellsyntax.Incomplete(script) }

type extractor struct {
	Extraction
	spent int // words that were examined
}

// spend counts words to examine; false: the bound is exceeded, and the extraction has failed.
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

// script extracts from a script up to a syntax error, as a shell runs the commands before one.
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
	case variant == syntax.LangZsh: // the parser does not know all of its grammar; that of bash is close
		x.script(text, syntax.LangBash, depth)
	default:
		x.fail(failed)
	}
}

// stmt extracts from the simple commands and expressions of a statement.
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

// assign extracts from an assignment.
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

// quoted extracts from the subscripts in the words of an expression, which arithmetic evaluates again. Expressions nest, and each level
// walks all levels below it, so every node counts.
func (x *extractor) quoted(n syntax.Node, depth int) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok && fixed(w) {
			x.subscripted(read(w), depth)
		}
		return x.spend(1)
	})
}

// input is the standard input of a command, if it is known: a document in the script.
type input struct {
	text  string
	known bool
}

var noInput = input{}

// inputOf returns the standard input of a statement.
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

// document returns the text after << or <<<, which is not known if it has expansions.
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

// command adds a command and extracts from what it starts.
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

// text extracts from words that are a script when they are joined.
func (x *extractor) text(c Command, variant syntax.LangVariant, depth int) {
	if !c.Known() {
		x.unresolved(strings.Join(c.Argv(), " "))
		return
	}
	x.script(strings.Join(c.Argv(), " "), variant, depth)
}
