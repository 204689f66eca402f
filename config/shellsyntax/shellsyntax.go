// Package shellsyntax parses shell scripts within bounds.
//
// It owns: the only calls of the shell grammar outside of plugins, and the bounds on size and nesting that are checked before the grammar
// runs. It must not know: what a script's commands mean, who wrote it, what an unreadable script leads to.
//
// Start with [Parse]. The grammar's parser is recursive, in arithmetic with 12 KB of stack for each level, and a Go program can't
// recover from a stack overflow: a script that might nest too deeply must never reach it.
package shellsyntax

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a script. Openings are the characters that can begin a nested construct, wherever they occur: their number is an upper
// bound of the expensive nesting that needs no parser. What nests by words (`if if if …`) is bounded by the size: see TestNesting.
const (
	MaxBytes    = 128 << 10
	MaxOpenings = 4096
)

// ErrNul is returned for a script with a zero byte. A shell drops the byte or ends there, so what is shown would not be what runs.
var ErrNul = errors.New("the script has a zero byte")

// ErrLarge is returned for a script that exceeds a bound.
var ErrLarge = fmt.Errorf("the script has more than %d bytes or %d brackets", MaxBytes, MaxOpenings)

// Check returns the error with which all functions of this package refuse a script before they parse it.
func Check(script string) error {
	switch {
	case len(script) > MaxBytes || openings(script) > MaxOpenings:
		return ErrLarge
	case strings.Contains(script, "\x00"):
		return ErrNul
	}
	return nil
}

// openings counts the characters that can begin a nested construct.
func openings(script string) (n int) {
	for i := range len(script) {
		switch script[i] {
		case '(', '[', '{', '?', '`':
			n++
		}
	}
	return n
}

func parser(variant syntax.LangVariant) *syntax.Parser {
	return syntax.NewParser(syntax.Variant(variant), syntax.KeepComments(true))
}

// Parse parses a whole script.
func Parse(script string, variant syntax.LangVariant) (*syntax.File, error) {
	if err := Check(script); err != nil {
		return nil, err
	}
	return parser(variant).Parse(strings.NewReader(script), "")
}

// Statements yields the statements of a script up to the first error. Breaking out of the loop is allowed.
func Statements(script string, variant syntax.LangVariant) iter.Seq2[*syntax.Stmt, error] {
	return within(script, func(p *syntax.Parser) iter.Seq2[*syntax.Stmt, error] { return p.StmtsSeq(strings.NewReader(script)) }, variant)
}

// Words yields the words of a text up to the first error.
func Words(text string, variant syntax.LangVariant) iter.Seq2[*syntax.Word, error] {
	return within(text, func(p *syntax.Parser) iter.Seq2[*syntax.Word, error] { return p.WordsSeq(strings.NewReader(text)) }, variant)
}

// within yields what a parser yields, up to the first error. The parser may report an error more than once and must not be left
// before its end.
func within[T any](text string, parse func(*syntax.Parser) iter.Seq2[T, error], variant syntax.LangVariant) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := Check(text); err != nil {
			yield(none, err)
			return
		}
		open := true
		for v, err := range parse(parser(variant)) {
			switch {
			case !open:
			case err != nil:
				open = false
				yield(none, err)
			default:
				open = yield(v, nil)
			}
		}
	}
}

// Incomplete reports whether a shell would read more lines before it runs the last command of a text.
func Incomplete(text string) bool {
	if Check(text) != nil {
		return false
	}
	if end := strings.TrimRight(text, "\n"); len(end) < len(text) && strings.HasSuffix(end, "\\") {
		return true
	}
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	return syntax.IsIncomplete(err)
}
