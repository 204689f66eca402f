package markdown

import (
	"strings"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
)

// Stream renders a text that grows at its end. Only the last block is rendered anew.
type Stream struct {
	Renderer *Renderer

	width int
	whole string      // the beginning of the text that is rendered for good, and ends between two blocks
	lines []term.Line // of it
}

// Render returns the lines of the text, which is that of the last call with something added. Another text, or another width, starts over.
func (s *Stream) Render(src string, width int) []term.Line {
	if width != s.width || !strings.HasPrefix(src, s.whole) {
		s.whole, s.lines, s.width = "", nil, width
	}
	if n := boundary(src[len(s.whole):]); n > 0 {
		s.lines = s.join(s.Renderer.Render(src[len(s.whole):len(s.whole)+n], width))
		s.whole = src[:len(s.whole)+n]
	}
	return s.join(s.Renderer.Render(src[len(s.whole):], width))
}

func (s *Stream) join(more []term.Line) []term.Line {
	out := s.lines[:len(s.lines):len(s.lines)]
	if len(out) > 0 && len(more) > 0 {
		out = append(out, nil)
	}
	return append(out, more...)
}

// boundary returns where the last block of a text begins, if it is certain that nothing which follows can join it to what comes before:
// after a blank line, outside of fenced code, at a line that is neither indented nor part of a list.
func boundary(src string) int {
	best, fence, blank := 0, "", false
	for at := 0; at < len(src); {
		end := strings.IndexByte(src[at:], '\n')
		if end < 0 {
			end = len(src)
		} else {
			end += at + 1
		}
		line := src[at:end]
		trimmed := strings.TrimLeft(line, " ")
		switch mark := fenceOf(trimmed); {
		case fence != "":
			if strings.HasPrefix(mark, fence) && strings.Trim(trimmed, fence[:1]+" \t\r\n") == "" {
				fence = ""
			}
			blank = false
		case strings.TrimSpace(line) == "":
			blank = true
		default:
			if blank && starts(line) {
				best = at
			}
			blank = false
			if mark != "" {
				fence = mark
			}
		}
		at = end
	}
	return best
}

// fenceOf returns the backticks or tildes with which a line begins, if there are enough of them.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// starts reports whether a line begins a block of its own, whatever precedes the blank line above it.
func starts(line string) bool {
	c := line[0]
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '#' || c == '`' || c >= 0x80
}
