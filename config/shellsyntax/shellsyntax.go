// Package shellsyntax parses shell scripts within limits.
//
// It owns all calls of the shell parser outside plugins, and the limits on size and nesting that are checked before parsing. It
// does not know what a script's commands mean, who wrote it, or what happens if it does not parse.
//
// Start with [Parse]. The parser is recursive and uses up to 12 KB of stack per level (in arithmetic). A Go program cannot recover
// from a stack overflow, so a script that might nest too deeply must not reach the parser.
package shellsyntax

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of a script. Openings are the characters that can begin a nested construct, wherever they occur: their number is an upper
// bound for expensive nesting that needs no parsing. Nesting by keywords (`if if if …`) is bounded by the size; see TestNesting.
const (
	MaxBytes    = 128 << 10
	MaxOpenings = 4096
)

// ErrNul is returned for a script with a zero byte. Shells drop the byte or stop there, so the script that is shown would not be
// the one that runs.
var ErrNul = errors.New("the script has a zero byte")

// ErrLarge is returned for a script that exceeds a bound.
var ErrLarge = fmt.Errorf("the script has more than %d bytes or %d brackets", MaxBytes, MaxOpenings)

// Check returns the error with which all functions of this package reject a script before parsing it.
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

// within yields the results of a parser up to the first error. The parser may report an error more than once and must run to its
// end.
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
