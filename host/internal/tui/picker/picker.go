// Package picker is a list from which a person chooses.
//
// It owns: the filter, the selection, and how the list is drawn. It does not know what the entries are.
//
// Start with [Picker].
package picker

import (
	"strings"

	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// Row is an entry.
type Row struct {
	Label  string
	Detail string
	Value  any
}

// Picker is a list that is shown.
type Picker struct {
	Title string
	Rows  []Row
	Empty string // shown if there are no rows
	// Other makes a row of what was typed, which is the last one; nil: there is none.
	Other func(typed string) Row

	filter string
	at     int // index among the rows that match
}

// Matching returns the rows that contain all words of the filter.
func (p *Picker) Matching() []Row {
	words := strings.Fields(strings.ToLower(p.filter))
	var out []Row
	for _, r := range p.Rows {
		text := strings.ToLower(r.Label + " " + r.Detail)
		ok := true
		for _, w := range words {
			ok = ok && strings.Contains(text, w)
		}
		if ok {
			out = append(out, r)
		}
	}
	if p.filter != "" && p.Other != nil {
		out = append(out, p.Other(p.filter))
	}
	return out
}

// Replace shows other rows. The entry with the value of the selected one stays selected.
func (p *Picker) Replace(rows []Row) {
	var selected any
	if before := p.Matching(); p.at < len(before) {
		selected = before[p.at].Value
	}
	p.Rows = rows
	now := p.Matching()
	p.at = max(min(p.at, len(now)-1), 0)
	for i, r := range now {
		if selected != nil && r.Value == selected {
			p.at = i
		}
	}
}

// Type adds to the filter.
func (p *Picker) Type(text string) {
	p.filter += term.Plain(text)
	p.at = 0
}

// Do does an action of the context [keys.List] other than closing. chosen is set if a row was chosen.
func (p *Picker) Do(a keys.Action) (chosen *Row) {
	rows := p.Matching()
	switch a {
	case keys.Up:
		p.at = max(p.at-1, 0)
	case keys.Down:
		p.at = max(min(p.at+1, len(rows)-1), 0)
	case keys.Delete:
		if r := []rune(p.filter); len(r) > 0 {
			p.filter, p.at = string(r[:len(r)-1]), 0
		}
	case keys.Choose:
		if p.at < len(rows) {
			return &rows[p.at]
		}
	}
	return nil
}

// View returns at most height lines.
func (p *Picker) View(width, height int) []term.Line {
	rows := p.Matching()
	title := term.Line{{Text: term.Plain(p.Title), Style: theme.Accent}}
	if p.filter != "" {
		title = append(title, term.Span{Text: "  " + p.filter, Style: theme.Strong})
	} else if len(p.Rows) > 0 {
		title = append(title, term.Span{Text: "  type to search", Style: theme.Dim})
	}
	out := []term.Line{title.Fit(width)}
	room := max(height-1, 0)
	first := max(0, min(p.at-room/2, len(rows)-room))
	for i := first; i < len(rows) && i < first+room; i++ {
		out = append(out, row(rows[i], i == p.at, width))
	}
	if len(rows) == 0 && room > 0 {
		text := p.Empty
		if len(p.Rows) > 0 || text == "" {
			text = "nothing matches"
		}
		out = append(out, term.Text("  "+text, theme.Dim).Fit(width))
	}
	return out[:min(len(out), max(height, 0))]
}

func row(r Row, selected bool, width int) term.Line {
	l := term.Line{{Text: "  " + term.Plain(r.Label), Style: theme.Text}}
	if r.Detail != "" {
		l = append(l, term.Span{Text: "  " + term.Plain(r.Detail), Style: theme.Dim})
	}
	l = l.Fit(width)
	if selected {
		return term.Text(l.Pad(width, theme.Text).Plain(), theme.Selected)
	}
	return l
}
