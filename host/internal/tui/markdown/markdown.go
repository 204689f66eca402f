// Package markdown renders messages of models as lines of the screen.
//
// It owns: which parts of Markdown have a look, code and tables. It does not know where the lines are shown.
//
// Start with [Stream], for text that grows, and [Render].
package markdown

import (
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// narrow is the width below which nested blocks are no longer indented.
const narrow = 12

// parse is set up once, when first used.
func newParser() parser.Parser {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList, extension.Linkify)).Parser()
}

// Renderer renders texts. It is not safe for concurrent use.
type Renderer struct{ parser parser.Parser }

// Render returns the lines of a text at most width columns wide.
func (r *Renderer) Render(src string, width int) []term.Line {
	if r.parser == nil {
		r.parser = newParser()
	}
	b := []byte(term.Clean(src))
	w := walker{src: b}
	return w.children(r.parser.Parse(text.NewReader(b)), max(width, 1), true)
}

// walker renders the tree of one text.
type walker struct{ src []byte }

// children renders the blocks in a node, with a blank line between them unless they are tight.
func (w *walker) children(n ast.Node, width int, loose bool) []term.Line {
	var out []term.Line
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		lines := w.block(c, width)
		if len(lines) == 0 {
			continue
		}
		if loose && len(out) > 0 {
			out = append(out, nil)
		}
		out = append(out, lines...)
	}
	return out
}

func (w *walker) block(n ast.Node, width int) []term.Line {
	switch n := n.(type) {
	case *ast.Heading:
		return term.Wrap(w.inlines(n, theme.Heading), width)
	case *ast.Paragraph, *ast.TextBlock:
		return term.Wrap(w.inlines(n, theme.Text), width)
	case *ast.List:
		return w.list(n, width)
	case *ast.FencedCodeBlock:
		return w.code(n, string(n.Language(w.src)), width)
	case *ast.CodeBlock:
		return w.code(n, "", width)
	case *ast.HTMLBlock:
		s := w.lines(n)
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(w.src))
		}
		return term.Wrap([]term.Span{{Text: strings.TrimRight(s, "\n"), Style: theme.Dim}}, width)
	case *ast.Blockquote:
		bar := term.Text("│ ", theme.Dim)
		if width < narrow {
			bar = nil
		}
		return term.Prefix(w.children(n, width-bar.Width(), true), bar, bar)
	case *ast.ThematicBreak:
		return []term.Line{term.Text(strings.Repeat("─", min(width, 40)), theme.Dim)}
	case *east.Table:
		return w.table(n, width)
	}
	return w.children(n, width, true)
}

func (w *walker) list(n *ast.List, width int) []term.Line {
	var out []term.Line
	number := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		marker := "• "
		if n.IsOrdered() {
			marker = strconv.Itoa(number) + ". "
			number++
		}
		if width < narrow {
			marker = ""
		}
		lines := w.children(c, width-term.Width(marker), !n.IsTight)
		if len(lines) == 0 {
			lines = []term.Line{nil}
		}
		if !n.IsTight && len(out) > 0 {
			out = append(out, nil)
		}
		out = append(out, term.Prefix(lines, term.Text(marker, theme.Dim), term.Text(strings.Repeat(" ", term.Width(marker)), theme.Text))...)
	}
	return out
}

// lines returns the raw lines of a block.
func (w *walker) lines(n ast.Node) string {
	var out strings.Builder
	for i := range n.Lines().Len() {
		s := n.Lines().At(i)
		out.Write(s.Value(w.src))
	}
	return out.String()
}

func (w *walker) code(n ast.Node, language string, width int) []term.Line {
	indent := term.Text("  ", theme.Text)
	if width < narrow {
		indent = nil
	}
	lines := term.WrapAnywhere(Highlight(strings.TrimRight(w.lines(n), "\n"), language), width-indent.Width())
	return term.Prefix(lines, indent, indent)
}

// inlines returns the text in a block.
func (w *walker) inlines(n ast.Node, style term.Style) []term.Span {
	var out []term.Span
	add := func(s string, st term.Style) {
		out = append(out, term.Span{Text: strings.ReplaceAll(s, "\n", " "), Style: st})
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			add(string(c.Value(w.src)), style)
			if c.HardLineBreak() {
				out = append(out, term.Span{Text: "\n", Style: style})
			} else if c.SoftLineBreak() {
				add(" ", style)
			}
		case *ast.String:
			add(string(c.Value), style)
		case *ast.CodeSpan:
			for _, s := range w.inlines(c, theme.Text) {
				add(s.Text, style.With(theme.Code))
			}
		case *ast.Emphasis:
			more := theme.Emphasis
			if c.Level > 1 {
				more = theme.Strong
			}
			out = append(out, w.inlines(c, style.With(more))...)
		case *east.Strikethrough:
			out = append(out, w.inlines(c, style.With(theme.Struck))...)
		case *ast.Link:
			inner := w.inlines(c, style.With(theme.Link))
			out = append(out, inner...)
			if url := string(c.Destination); term.Line(inner).Plain() != url { // the target is never hidden
				add(" ("+url+")", style.With(theme.Dim))
			}
		case *ast.AutoLink:
			add(string(c.Label(w.src)), style.With(theme.Link))
		case *ast.Image:
			add("[image: ", style.With(theme.Dim))
			out = append(out, w.inlines(c, style)...)
			add("] ("+string(c.Destination)+")", style.With(theme.Dim))
		case *ast.RawHTML:
			for i := range c.Segments.Len() {
				s := c.Segments.At(i)
				add(string(s.Value(w.src)), style.With(theme.Dim))
			}
		case *east.TaskCheckBox:
			box := "☐ "
			if c.IsChecked {
				box = "☑ "
			}
			add(box, style)
		default:
			out = append(out, w.inlines(c, style)...)
		}
	}
	return out
}
