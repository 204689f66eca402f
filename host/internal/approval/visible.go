package approval

import (
	"strings"
	"unicode"
)

// Visible returns text as it is safe to show to a person: at most limit bytes, and without control and formatting characters, which
// could hide or reorder other text.
func Visible(s string, limit int) string {
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

// Hides reports whether a character could hide or reorder other text.
func Hides(c rune) bool {
	return unicode.Is(unicode.Cf, c) || unicode.IsControl(c) && c != '\n' && c != '\t'
}
