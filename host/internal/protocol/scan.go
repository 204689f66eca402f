package protocol

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// The functions of this file take JSON apart that is known to be valid. They look at each byte at most once per level and copy no values:
// parameters may contain images of many megabytes.

// members yields the members of an object, in their order.
func members(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := next(raw, 1); raw[i] != '}'; {
			end := skipString(raw, i)
			name := unquote(raw[i:end])
			i = next(raw, next(raw, end)+1) // after the colon
			end = skipValue(raw, i)
			if !yield(name, raw[i:end]) {
				return
			}
			if i = next(raw, end); raw[i] == ',' {
				i = next(raw, i+1)
			}
		}
	}
}

// elements yields the elements of an array.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := next(raw, 1); raw[i] != ']'; {
			end := skipValue(raw, i)
			if !yield(raw[i:end]) {
				return
			}
			if i = next(raw, end); raw[i] == ',' {
				i = next(raw, i+1)
			}
		}
	}
}

// next returns the index of the first byte that is not white space.
func next(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r' {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(raw []byte, i int) int {
	for {
		i += 1 + bytes.IndexByte(raw[i+1:], '"')
		escapes := 0
		for raw[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the index after the value that begins at i.
func skipValue(raw []byte, i int) int {
	for depth := 0; ; {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r': // inside an object or an array
			i++
			continue
		default:
			for i < len(raw) && bytes.IndexByte([]byte(",:]} \t\n\r"), raw[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// unquote returns the text of a string. Invalid UTF-8 is replaced.
func unquote(raw []byte) string {
	if text := raw[1 : len(raw)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return string(text)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it is valid
	return s
}
