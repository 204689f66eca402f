package command

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// maxFields bounds the arguments that one word with braces expands to.
const maxFields = 64

// read returns the arguments that a word expands to.
func read(w *syntax.Word) []Word {
	if !fixed(w) {
		return []Word{{Text: sourceOf(w)}}
	}
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\{~") { // fast path
			return []Word{{Text: lit.Value, Fixed: true}}
		}
	}
	source := sourceOf(w) // expand modifies words with braces
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

// fixed reports whether a word's value is independent of variables, files, users and other commands.
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

// varies reports whether unquoted text is a pattern for file names, or begins with a home folder or, in zsh, the path of a program.
func varies(text string, first, alone bool) bool {
	if alone && (text == "[" || text == "]" || text == "=") {
		return false
	}
	if first && (strings.HasPrefix(text, "~") || strings.HasPrefix(text, "=")) {
		return true
	}
	// A pattern may continue after a quoted part.
	return pattern.HasMeta(text, 0) || !alone && strings.ContainsAny(text, "[{")
}

// maxSource bounds the source that is printed for a word, in bytes, as each level of nested words would be printed with all below it.
const maxSource = 2 << 10

// sourceOf returns the source of a word.
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

// Split splits text into words as a shell does; ok is false if a word is not fixed, or there is more than one command.
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

// Join quotes words where necessary and joins them to a command line.
func Join(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil { // bytes that can't be quoted
			q = "$'" + strings.ToValidUTF8(strings.ReplaceAll(a, "\x00", `\0`), "�") + "'"
		}
		out[i] = q
	}
	return strings.Join(out, " ")
}
