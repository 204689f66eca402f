package acp

import (
	"strconv"
	"strings"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// contents shows changes of files: with the whole old and new text where both are stored, and otherwise with what their diffs show.
// stored are the changes with the digests of their contents, in the same order; nil: they are not known yet.
func contents(stored []event.FileChange, changes []protocol.FileUpdateChange, read func(string) (string, bool)) []acp.ToolCallContent {
	var out []acp.ToolCallContent
	for i, c := range changes {
		if i < len(stored) && read != nil {
			if d, ok := whole(stored[i], c, read); ok {
				out = append(out, d)
				continue
			}
		}
		out = append(out, parts(c)...)
	}
	return out
}

// whole shows a change with the contents of the file before and after it.
func whole(s event.FileChange, c protocol.FileUpdateChange, read func(string) (string, bool)) (acp.ToolCallContent, bool) {
	_, adds := c.Kind.Body.(protocol.AddPatch)
	_, deletes := c.Kind.Body.(protocol.DeletePatch)
	d := acp.ToolCallContentDiff{Type: "diff", Path: target(c)}
	if !adds || s.Before != "" { // a file can be created in the place of another
		text, ok := read(s.Before)
		if !ok || !readable(text) {
			return acp.ToolCallContent{}, false
		}
		d.OldText = &text
	}
	if !deletes {
		text, ok := read(s.After)
		if !ok || !readable(text) {
			return acp.ToolCallContent{}, false
		}
		d.NewText = text
	}
	return acp.ToolCallContent{Diff: &d}, true
}

// parts shows the parts of a file that a diff shows.
func parts(c protocol.FileUpdateChange) []acp.ToolCallContent {
	_, adds := c.Kind.Body.(protocol.AddPatch)
	var out []acp.ToolCallContent
	for _, h := range hunksOf(c.Diff) {
		d := acp.ToolCallContentDiff{Type: "diff", Path: target(c), NewText: h.after}
		if !adds {
			d.OldText = acp.Ptr(h.before)
		}
		out = append(out, acp.ToolCallContent{Diff: &d})
	}
	if len(out) == 0 && c.Diff != "" {
		return fenced(c.Diff)
	}
	return out
}

// hunk is a part of a unified diff.
type hunk struct {
	line          int // first line after the change, from 1; 0: unknown
	before, after string
}

// hunksOf reads a unified diff of one file. A diff that was cut off ends with what it has.
func hunksOf(diff string) []hunk {
	var out []hunk
	var h *hunk
	var last *string // where the last line went; nil: both sides
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "@@") {
			out = append(out, hunk{line: firstLine(line)})
			h, last = &out[len(out)-1], nil
			continue
		}
		if h == nil {
			continue // the header
		}
		text := line[1:]
		switch line[0] {
		case ' ':
			h.before, h.after, last = h.before+text, h.after+text, nil
		case '-':
			h.before, last = h.before+text, &h.before
		case '+':
			h.after, last = h.after+text, &h.after
		case '\n':
			h.before, h.after, last = h.before+"\n", h.after+"\n", nil
		case '\\': // the last line has no newline
			if last != nil {
				*last = strings.TrimSuffix(*last, "\n")
			} else {
				h.before, h.after = strings.TrimSuffix(h.before, "\n"), strings.TrimSuffix(h.after, "\n")
			}
		default:
			h = nil // what follows is no part of the hunk
		}
	}
	return out
}

// firstLine returns the first line after the change of a hunk's header "@@ -1,2 +3,4 @@"; 0: it has none.
func firstLine(header string) int {
	_, after, ok := strings.Cut(header, " +")
	if !ok {
		return 0
	}
	digits := after
	if end := strings.IndexAny(after, ", "); end >= 0 {
		digits = after[:end]
	}
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
