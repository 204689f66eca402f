package markdown

import (
	"strings"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
	east "github.com/yuin/goldmark/extension/ast"
)

const (
	gap     = 2 // between columns
	leanest = 6 // below this width, a column is not readable
)

// table renders a table: columns next to each other if they fit, else each row as a list of its cells.
func (w *walker) table(n *east.Table, width int) []term.Line {
	var rows [][][]term.Span
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		style := theme.Text
		if _, header := r.(*east.TableHeader); header {
			style = theme.Strong
		}
		var row [][]term.Span
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			row = append(row, w.inlines(c, style))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 || len(rows[0]) == 0 {
		return nil
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range min(len(row), len(widths)) {
			widths[i] = max(widths[i], term.Line(row[i]).Width(), 1)
		}
	}
	if !shrink(widths, width-gap*(len(widths)-1)) {
		return listed(rows, width)
	}
	var out []term.Line
	for r, row := range rows {
		var cells [][]term.Line
		height := 1
		for i := range widths {
			lines := []term.Line{nil}
			if i < len(row) {
				lines = term.Wrap(row[i], widths[i])
			}
			cells = append(cells, lines)
			height = max(height, len(lines))
		}
		for y := range height {
			var line term.Line
			for i := range widths {
				var cell term.Line
				if y < len(cells[i]) {
					cell = cells[i][y]
				}
				if i+1 < len(widths) {
					cell = cell.Pad(widths[i]+gap, theme.Text)
				}
				line = append(line, cell...)
			}
			out = append(out, line)
		}
		if r == 0 {
			var rule term.Line
			for i, n := range widths {
				rule = append(rule, term.Span{Text: strings.Repeat("─", n), Style: theme.Dim})
				if i+1 < len(widths) {
					rule = append(rule, term.Span{Text: strings.Repeat(" ", gap)})
				}
			}
			out = append(out, rule)
		}
	}
	return out
}

// shrink makes the widest columns narrower until their sum is at most total. It returns false if that makes one unreadable.
func shrink(widths []int, total int) bool {
	for {
		sum, widest := 0, 0
		for i, n := range widths {
			sum += n
			if n > widths[widest] {
				widest = i
			}
		}
		if sum <= total {
			return true
		}
		if widths[widest] <= leanest {
			return false
		}
		widths[widest]--
	}
}

// listed renders rows one below the other.
func listed(rows [][][]term.Span, width int) []term.Line {
	var out []term.Line
	for _, row := range rows[1:] {
		if len(out) > 0 {
			out = append(out, nil)
		}
		for i, cell := range row {
			var line []term.Span
			if i < len(rows[0]) {
				line = append(append(line, rows[0][i]...), term.Span{Text: ": "})
			}
			out = append(out, term.Wrap(append(line, cell...), width)...)
		}
	}
	if len(rows) == 1 {
		for _, cell := range rows[0] {
			out = append(out, term.Wrap(cell, width)...)
		}
	}
	return out
}
