// Package term makes lines for a terminal's screen from text of any origin.
//
// It owns: which characters reach the screen, how wide they are, styles, and wrapping. It does not know what is shown.
//
// Start with [Clean], [Line] and [Wrap].
package term

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/gantry-agent/gantry/host/internal/visible"
)

const tabWidth = 4

// Clean returns text that can't control the terminal or the order of other text: escape sequences are removed, tabs become spaces, and of
// a line that was overwritten with carriage returns, what remained visible is kept.
func Clean(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && (c < ' ' || c > '~') }) {
		return s
	}
	if strings.ContainsAny(s, "\x1b\u0090\u0098\u009b\u009d\u009e\u009f") {
		s = ansi.Strip(s)
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var out strings.Builder
	out.Grow(len(s))
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		if line = strings.TrimRight(line, "\r"); strings.Contains(line, "\r") {
			line = line[strings.LastIndexByte(line, '\r')+1:]
		}
		column := 0
		for _, c := range line {
			switch {
			case c == '\t':
				n := tabWidth - column%tabWidth
				out.WriteString(strings.Repeat(" ", n))
				column += n
				continue
			case visible.Reorders(c):
				c = unicode.ReplacementChar
			case unicode.IsControl(c) || c == '\u200b' || c == '\u2060' || c == '\ufeff' || c == '\u00ad':
				continue
			case c == '\u2028' || c == '\u2029':
				c = ' '
			}
			out.WriteRune(c)
			column++
		}
	}
	return out.String()
}

// Plain returns one line of text in which nothing is hidden, for questions and lists.
func Plain(s string) string {
	return strings.ReplaceAll(visible.Text(strings.ReplaceAll(s, "\t", "    "), maxPlain), "\n", "⏎")
}

// maxPlain bounds a line of foreign text, in bytes.
const maxPlain = 16 << 10

// Width returns the number of columns of a text without control characters.
func Width(s string) int { return ansi.StringWidth(s) }

// First returns the first character of a text, as a person understands it, and its width.
func First(s string) (string, int) {
	if s == "" {
		return "", 0
	}
	if c := s[0]; c < 0x80 && (len(s) == 1 || s[1] < 0x80) {
		return s[:1], 1
	}
	g, w := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	if g == "" {
		return s[:1], 1
	}
	return g, w
}
