package output

import (
	"strings"
	"unicode/utf8"
)

// Text decodes UTF-8. Each invalid byte becomes U+FFFD.
func Text(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	b.Grow(len(p) + utf8.UTFMax)
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		b.WriteRune(r)
		p = p[size:]
	}
	return b.String()
}

// Partial returns the length of the incomplete character at the end of p: 0 to 3 bytes.
func Partial(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n]; utf8.RuneStart(last) {
			if utf8.FullRune(p[len(p)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
