package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gantry-agent/gantry/host/internal/form"
)

// Output formats the output of a plugin's command for people: a text, a message, a list of flat objects as a table, or a flat object as
// rows. An empty list is a sentence. It returns false for anything else.
func Output(raw json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return line(text), true
	}
	names, values := form.Members(raw)
	switch {
	case len(names) == 1 && names[0] == "message" && json.Unmarshal(values[0], &text) == nil:
		return line(text), true
	case len(names) == 1:
		var rows []json.RawMessage
		if json.Unmarshal(values[0], &rows) == nil && rows != nil && len(rows) == 0 {
			return line("no " + strings.ReplaceAll(OneLine(names[0], 80), "_", " ")), true
		}
		if shown, ok := table(values[0]); ok {
			return shown, true
		}
	case len(names) == 0:
		return table(raw)
	}
	return columns(func(w *tabwriter.Writer) bool {
		for i, name := range names {
			cell, ok := cellOf(values[i], maxRow)
			if !ok {
				return false
			}
			fmt.Fprintf(w, "%s\t%s\n", OneLine(name, 80), cell)
		}
		return true
	})
}

// line ends a text with a line break.
func line(text string) string { return strings.TrimRight(Clean(text), "\n") + "\n" }

// table formats a list of flat objects.
func table(raw json.RawMessage) (string, bool) {
	var rows []json.RawMessage
	if json.Unmarshal(raw, &rows) != nil || len(rows) == 0 {
		return "", false
	}
	var heads []string
	cells := make([]map[string]json.RawMessage, len(rows))
	for i, row := range rows {
		names, values := form.Members(row)
		if len(names) == 0 {
			return "", false
		}
		cells[i] = map[string]json.RawMessage{}
		for j, name := range names {
			cells[i][name] = values[j]
			if !slices.Contains(heads, name) {
				heads = append(heads, name)
			}
		}
	}
	return columns(func(w *tabwriter.Writer) bool {
		for _, h := range heads {
			fmt.Fprintf(w, "%s\t", strings.ToUpper(OneLine(h, 80)))
		}
		fmt.Fprintln(w)
		for _, row := range cells {
			for _, h := range heads {
				cell, ok := cellOf(row[h], maxCell)
				if !ok {
					return false
				}
				fmt.Fprintf(w, "%s\t", cell)
			}
			fmt.Fprintln(w)
		}
		return true
	})
}

// columns aligns what fill writes; false if fill can't.
func columns(fill func(*tabwriter.Writer) bool) (string, bool) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	if !fill(w) || w.Flush() != nil {
		return "", false
	}
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n"), true
}

// Limits of a value, in characters: in a table, and on a row of its own.
const (
	maxCell = 200
	maxRow  = 8 << 10
)

// cellOf formats a value that has no others in it, on a line of at most bound characters.
func cellOf(raw json.RawMessage, bound int) (string, bool) {
	var v any
	if len(raw) == 0 {
		return "", true
	}
	if json.Unmarshal(raw, &v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return OneLine(Plain(v), bound), true
	case nil:
		return "", true
	case bool, float64:
		return string(raw), true
	}
	return "", false
}
