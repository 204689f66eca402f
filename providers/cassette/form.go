package cassette

import (
	"regexp"
	"strings"
)

// Patterns of text that differs each time: IDs, dates, times and durations. Requests that differ only in these are considered
// equal.
var (
	identity = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	hex      = regexp.MustCompile(`^[0-9a-f]{6,128}$`)
	moment   = regexp.MustCompile(`^\d{4}-\d\d-\d\d([T_]\d\d:?\d\d(:?\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$|^\d\d:\d\d(:\d\d(\.\d+)?)?$`)
	duration = regexp.MustCompile(`^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$`)
	number   = regexp.MustCompile(`^\d+(\.\d+)?$`)
	unit     = regexp.MustCompile(`^\s?(ns|us|µs|ms|s|secs?|seconds?|minutes?|hours?)($|\W)`)
)

// form returns a text without the parts that differ each time.
func form(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		n := strings.IndexFunc(s, isWord)
		if n < 0 {
			break
		}
		out.WriteString(s[:n])
		s = s[n:]
		if n = strings.IndexFunc(s, func(r rune) bool { return !isWord(r) }); n < 0 {
			n = len(s)
		}
		word := strings.TrimRight(s[:n], ".:-") // punctuation at the end is not part of the word
		rest := s[len(word):]
		out.WriteString(wordForm(word, rest))
		s = rest
		if word == "" { // only dots and dashes
			out.WriteString(s[:n])
			s = s[n:]
		}
	}
	out.WriteString(s)
	return out.String()
}

func isWord(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_' || r == '.' || r == ':' || r == 'µ'
}

func wordForm(word, rest string) string {
	switch {
	case identity.MatchString(word):
		return "<id>"
	case moment.MatchString(word):
		return "<time>"
	case duration.MatchString(word), number.MatchString(word) && unit.MatchString(rest):
		return "<duration>"
	case hex.MatchString(word):
		return "<hex>"
	}
	return word
}
