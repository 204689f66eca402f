package catalog

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text cleans a server's text for people and models: it is valid UTF-8 of at most max bytes, without control characters other than
// newlines and tabs, and without characters that are invisible or change the order of others.
func Text(s string, max int) string {
	return bound(clean(s, func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\u2028' || r == '\u2029':
			return '\n'
		case unicode.IsControl(r), invisible(r):
			return -1
		}
		return r
	}), max)
}

// Line is [Text] on one line.
func Line(s string, max int) string {
	return bound(strings.Join(strings.Fields(Text(s, 4*max)), " "), max)
}

// Output cleans the text of a result, which the model may have to quote exactly: only control characters other than newlines, carriage
// returns and tabs, and characters that change the order of others, are replaced by the replacement character.
func Output(s string) string {
	return clean(s, func(r rune) rune {
		if r != '\n' && r != '\r' && r != '\t' && unicode.IsControl(r) || reorders(r) {
			return utf8.RuneError
		}
		return r
	})
}

// OutputJSON escapes the characters in JSON that [Output] replaces. The value stays the same.
func OutputJSON(raw []byte) []byte {
	if !strings.ContainsFunc(string(raw), escaped) {
		return raw
	}
	var b strings.Builder
	for _, r := range string(raw) {
		if !escaped(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) { // outside of strings, JSON has none of these
			b.WriteString(`\u` + ("000" + strconv.FormatUint(uint64(unit), 16))[len(strconv.FormatUint(uint64(unit), 16))-1:])
		}
	}
	return []byte(b.String())
}

// OutputValue is [Output] for each text in a JSON value. Keys are sorted.
func OutputValue(raw []byte) (json.RawMessage, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return encode(cleaned(v))
}

func cleaned(v any) any {
	switch v := v.(type) {
	case string:
		return Output(v)
	case []any:
		for i := range v {
			v[i] = cleaned(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[Output(k)] = cleaned(x)
		}
		return out
	}
	return v
}

// escaped reports whether a rune is escaped in JSON. Control characters below U+0020 are so already.
func escaped(r rune) bool { return r >= 0x7f && unicode.IsControl(r) || reorders(r) }

// reorders reports whether a character changes the order in which others are displayed.
func reorders(r rune) bool { return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' }

// invisible reports whether a character is a format character. Joiners are kept: scripts and emoji need them.
func invisible(r rune) bool {
	return r > unicode.MaxASCII && unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d'
}

func clean(s string, each func(rune) rune) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(each, s)
}

// bound cuts a text between characters.
func bound(s string, max int) string {
	const mark = "…"
	if len(s) <= max {
		return s
	}
	end := max - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
