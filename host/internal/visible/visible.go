// Package visible makes text of others, such as plugins, models and servers, safe to show.
//
// It owns: which characters could hide or reorder other text. It must not know: where text is shown.
//
// Start with [Text].
package visible

import (
	"strings"
	"unicode"
)

// Text returns text as it is safe to show to a person: at most limit bytes, and without control and formatting characters, which could
// hide or reorder other text.
func Text(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strings.Map(func(c rune) rune {
		if Hides(c) {
			return unicode.ReplacementChar
		}
		return c
	}, s)
}

// Reorders reports whether a character could change the order in which others are shown.
func Reorders(c rune) bool {
	return c == '\u061c' || c >= '\u202a' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069'
}

// Hides reports whether a character could hide or reorder other text.
func Hides(c rune) bool {
	return unicode.Is(unicode.Cf, c) || unicode.IsControl(c) && c != '\n' && c != '\t'
}
