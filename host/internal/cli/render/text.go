package render

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/visible"
)

// Clean removes control characters that could move the cursor, change colours or the direction of text, or retitle a terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\u2028' || r == '\u2029' || visible.Reorders(r):
			return unicode.ReplacementChar
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

// Plain is like Clean but makes invisible format characters visible, which could hide the meaning of a line.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if visible.Hides(r) {
			return unicode.ReplacementChar
		}
		return r
	}, Clean(s))
}

// OneLine returns a text on one line of at most bound characters.
func OneLine(s string, bound int) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if r := []rune(s); len(r) > bound {
		s = string(r[:bound-1]) + "…"
	}
	return s
}

// Plural returns "1 thread" or "2 threads".
func Plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Listed joins names, or returns otherwise if there are none.
func Listed(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return strings.Join(names, ", ")
}
