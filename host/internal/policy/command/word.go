package command

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// maxFields bounds what one word with braces may become: `{1..1000000}` says nothing that a thousandth of it does not.
const maxFields = 64

// read returns what a word becomes, as the shell would unquote it.
func read(w *syntax.Word) []Word {
	if !fixed(w) {
		return []Word{{Text: sourceOf(w)}}
	}
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\{~") { // the usual word
			return []Word{{Text: lit.Value, Fixed: true}}
		}
	}
	source := sourceOf(w) // before expand splits the word's braces
	var out []Word
	for text, err := range expand.FieldsSeq(&expand.Config{NoUnset: true}, w) {
		if err != nil || len(out) == maxFields {
			return []Word{{Text: source}}
		}
		out = append(out, Word{Text: text, Fixed: true})
	}
	return out
}

func readAll(ws []*syntax.Word) Command {
	var out Command
	for _, w := range ws {
		out = append(out, read(w)...)
	}
	return out
}

// fixed reports whether a word's value does not depend on variables, files, users or other commands.
func fixed(w *syntax.Word) bool {
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if varies(p.Value, i == 0, len(w.Parts) == 1) {
				return false
			}
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
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

// varies reports whether unquoted text is a pattern for file names, or begins with somebody's home folder or, as zsh has it, with
// the place of a program.
func varies(text string, first, alone bool) bool {
	if alone && (text == "[" || text == "]" || text == "=") {
		return false
	}
	if first && (strings.HasPrefix(text, "~") || strings.HasPrefix(text, "=")) {
		return true
	}
	// A pattern may go on behind a part in quotes, where the part alone does not look like one.
	return pattern.HasMeta(text, 0) || !alone && strings.ContainsAny(text, "[{")
}

// maxSource is how many bytes of the script are printed for a word: words nest, and each level would be printed with all in it.
const maxSource = 2 << 10

// sourceOf prints a word as it stands in the script.
func sourceOf(n syntax.Node) string {
	if n.End().Offset()-n.Pos().Offset() > maxSource {
		return "…"
	}
	var b strings.Builder
	if syntax.NewPrinter().Print(&b, n) != nil {
		return "…"
	}
	return b.String()
}

// Split cuts text into words as a shell does. ok is false where the words are not all known, or there is more than one command.
func Split(text string) (words []string, ok bool) {
	for w, err := range shellsyntax.Words(text, syntax.LangBash) {
		if err != nil || !fixed(w) {
			return nil, false
		}
		for _, f := range read(w) {
			words = append(words, f.Text)
		}
	}
	return words, true
}

// Join writes a command line so that a shell, and a person, reads the same words.
func Join(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil { // bytes that no shell can be given
			q = "$'" + strings.ToValidUTF8(strings.ReplaceAll(a, "\x00", `\0`), "�") + "'"
		}
		out[i] = q
	}
	return strings.Join(out, " ")
}
