package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// WriteDiff writes a diff for a terminal, in colour and without control characters.
func WriteDiff(w io.Writer, diff string, colour bool) {
	h := NewHuman(w, colour, false)
	for line := range strings.Lines(diff) {
		h.line("%s", h.diffLine(strings.TrimSuffix(line, "\n")))
	}
}

// Net shows a turn's diff. notes adds lines to it.
func (h *Human) Net(files []event.DiffedFile, diff string, notes func(say func(string, ...any))) {
	h.line("%s", h.paint(dim, netLine(files)))
	h.showDiff(diff)
	notes(func(format string, args ...any) { h.line("  %s", h.paint(dim, fmt.Sprintf(format, args...))) })
}

func (h *Human) showDiff(diff string) {
	for line := range strings.Lines(diff) {
		h.line("  %s", h.diffLine(strings.TrimSuffix(line, "\n")))
	}
}

// netLine summarizes a turn's file changes on one line.
func netLine(files []event.DiffedFile) string {
	added, removed := 0, 0
	for _, f := range files {
		added += f.Added
		removed += f.Removed
	}
	return fmt.Sprintf("%s changed, +%d −%d", Plural(len(files), "file"), added, removed)
}

// diffLine colours a line of a diff.
func (h *Human) diffLine(line string) string {
	shown := Clean(line)
	switch {
	case strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ "):
		return h.paint(bold, shown)
	case strings.HasPrefix(line, "@@"):
		return h.paint(cyan, shown)
	case strings.HasPrefix(line, "+"):
		return h.paint(green, shown)
	case strings.HasPrefix(line, "-"):
		return h.paint(red, shown)
	}
	return shown
}
