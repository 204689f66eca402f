package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// Plain returns the commands of a script that consists only of simple commands joined by `&&`, `||`, `;`, `|` and line ends. ok is false for
// anything else: redirections, expansions, assignments, control flow, comments, quoted names, and scripts that can't be parsed. Words
// that the shell would match against file names are returned, but are not fixed.
func Plain(script string) (commands []Command, ok bool) {
	file, err := shellsyntax.Parse(script, syntax.LangBash)
	if err != nil || len(file.Stmts) == 0 || len(file.Last) > 0 || endsOpen(file, script) {
		return nil, false
	}
	for _, s := range file.Stmts {
		if commands, ok = plainStmt(s, commands); !ok {
			return nil, false
		}
	}
	return commands, true
}

// endsOpen reports whether a separator follows the last command.
func endsOpen(file *syntax.File, script string) bool {
	last := file.Stmts[len(file.Stmts)-1]
	return last.Semicolon.IsValid() && strings.TrimSpace(script[last.Semicolon.Offset():]) != ""
}

func plainStmt(s *syntax.Stmt, into []Command) ([]Command, bool) {
	if !bare(s) || len(s.Redirs) > 0 {
		return nil, false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		c, ok := plainCall(cmd)
		if !ok {
			return nil, false
		}
		return append(into, c), true
	case *syntax.BinaryCmd:
		if cmd.Op == syntax.PipeAll {
			return nil, false
		}
		into, ok := plainStmt(cmd.X, into)
		if !ok {
			return nil, false
		}
		return plainStmt(cmd.Y, into)
	}
	return nil, false
}

func bare(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && !s.Coprocess && !s.Disown && len(s.Comments) == 0
}

// plainCall returns the words of a simple command whose name is literal.
func plainCall(call *syntax.CallExpr) (Command, bool) {
	if len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	if name := call.Args[0].Lit(); name == "" || strings.ContainsAny(name, `\~*?[{=`) && name != "[" {
		return nil, false
	}
	var c Command
	for _, w := range call.Args {
		if !expandsNothing(w) {
			return nil, false
		}
		c = append(c, read(w)...)
	}
	return c, true
}

// expandsNothing reports whether a word consists only of text and quotes.
func expandsNothing(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
		case *syntax.SglQuoted:
			if p.Dollar {
				return false
			}
		case *syntax.DblQuoted:
			if p.Dollar {
				return false
			}
			for _, in := range p.Parts {
				if _, ok := in.(*syntax.Lit); !ok {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}
