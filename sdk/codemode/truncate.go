package codemode

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	defaultMaxTokens = 6000
	charsPerToken    = 4
	// markerChars is the largest length of a marker.
	markerChars = 512
	markerStart = "\n\n--- TRUNCATED ---\nResponse was ~"
)

// Limit is a maximum length of text for a model. The zero value is 6,000 tokens of four characters.
type Limit struct {
	MaxTokens int // 0: MaxChars/4, or 6000
	MaxChars  int // 0: 4*MaxTokens
}

// effective returns both limits. The marker reports the one that applies.
func (l Limit) effective() (tokens, chars int) {
	switch {
	case l.MaxTokens <= 0 && l.MaxChars <= 0:
		return defaultMaxTokens, defaultMaxTokens * charsPerToken
	case l.MaxChars <= 0:
		return l.MaxTokens, l.MaxTokens * charsPerToken
	}
	return (l.MaxChars + charsPerToken - 1) / charsPerToken, l.MaxChars
}

// TruncateResponse returns text if it is within the limit, and otherwise its beginning and a marker. Lengths are in characters.
func TruncateResponse(text string, limit Limit) string {
	tokens, chars := limit.effective()
	if len(text) <= chars {
		return text
	}
	length := utf8.RuneCountInString(text)
	if length <= chars {
		return text
	}
	return text[:offset(text, chars)] + markerStart + thousands((length+charsPerToken-1)/charsPerToken) + " tokens (limit: " + thousands(tokens) +
		"). Narrow the request to reduce response size."
}

// TruncateResult returns value itself if it is within the limit, so that it keeps its structure, and otherwise the truncated text of
// its indented JSON. A value that has no JSON, and nil, are returned as they are.
func TruncateResult(value any, limit Limit) any {
	if s, ok := value.(string); ok {
		return TruncateResponse(s, limit)
	}
	if value == nil {
		return nil
	}
	text, ok := indented(value)
	if !ok {
		return value
	}
	if short := TruncateResponse(text, limit); short != text {
		return short
	}
	return value
}

// SandboxResponseText returns the text for the model of a value that a script returned. A string that the script has truncated
// already is recognized by its length and the position of the marker, and not truncated again.
func SandboxResponseText(value any) string {
	text, ok := value.(string)
	if !ok {
		if text, ok = indented(value); !ok {
			return "[value without a JSON form]"
		}
	}
	_, chars := Limit{}.effective()
	if length := utf8.RuneCountInString(text); length > chars && length <= chars+markerChars && strings.HasPrefix(text[offset(text, chars):], markerStart) {
		return text
	}
	return TruncateResponse(text, Limit{})
}

// offset returns the offset in bytes of the character with the index n, which must exist.
func offset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// indented returns the JSON of a value, indented by two spaces.
func indented(value any) (string, bool) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(value) != nil {
		return "", false
	}
	return strings.TrimSuffix(b.String(), "\n"), true
}

// thousands formats a number that is not negative with separators.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
