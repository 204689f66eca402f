package protocol

import (
	"encoding/json"
	"unicode/utf8"
)

// JSONReader reads frames of a known shape in one pass. Vendors send thousands of them for one answer, all alike but for a few
// words; this way they cost a fraction of what encoding/json takes. It knows plain JSON only: whenever a method reports
// false, the frame is read again with encoding/json, and the result must be the same. Spaces between values are passed over.
type JSONReader struct {
	data []byte
	at   int
}

// Begin starts a frame, whose bytes are only read until its end.
func (r *JSONReader) Begin(data []byte) { r.data, r.at = data, 0 }

// End reports whether nothing is left, and lets go of the frame.
func (r *JSONReader) End() bool {
	r.space()
	all := r.at == len(r.data)
	r.data, r.at = nil, 0
	return all
}

// Take takes one byte, if it is next.
func (r *JSONReader) Take(c byte) bool {
	r.space()
	if r.at >= len(r.data) || r.data[r.at] != c {
		return false
	}
	r.at++
	return true
}

func (r *JSONReader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// Key reads the name of a field and its colon. A name that encoding/json could take for another one, because it ignores
// case, is not read.
func (r *JSONReader) Key() (name []byte, ok bool) {
	name, plain, ok := r.text()
	if !ok || !plain || !r.Take(':') {
		return nil, false
	}
	for _, c := range name {
		if c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf {
			return nil, false
		}
	}
	return name, true
}

// Text reads a string.
func (r *JSONReader) Text(s *string) bool {
	raw, plain, ok := r.text()
	switch {
	case !ok:
		return false
	case plain:
		*s = string(raw)
		return true
	}
	return json.Unmarshal(r.data[r.at-len(raw)-2:r.at], s) == nil
}

// Same reads a string that is mostly the one of the frame before: last, which is then not made again.
func (r *JSONReader) Same(last, s *string) bool {
	raw, plain, ok := r.text()
	if !ok || !plain {
		return false
	}
	if string(raw) != *last {
		*last = string(raw)
	}
	*s = *last
	return true
}

// text reads a string and returns what is between its quotes. plain: it stands for itself, without escapes.
func (r *JSONReader) text() (raw []byte, plain, ok bool) {
	if !r.Take('"') {
		return nil, false, false
	}
	from, ascii := r.at, true
	plain = true
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '"':
			raw = r.data[from:r.at]
			r.at++
			return raw, plain, ascii || utf8.Valid(raw)
		case c == '\\':
			plain = false
			r.at++
		case c < ' ':
			return nil, false, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, false
}

// Number reads a whole number without sign.
func (r *JSONReader) Number(n *int) bool {
	r.space()
	from := r.at
	v := 0
	for ; r.at < len(r.data) && isDigit(r.data[r.at]); r.at++ {
		if r.at-from == 9 {
			return false
		}
		v = v*10 + int(r.data[r.at]-'0')
	}
	digits := r.at - from
	if digits == 0 || digits > 1 && r.data[from] == '0' {
		return false
	}
	*n = v
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Null takes the word null, if it is next.
func (r *JSONReader) Null() bool { return r.word("null") }

func (r *JSONReader) word(w string) bool {
	r.space()
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// Skip passes over a value that means nothing: plain text, a word, a whole number, an empty list.
func (r *JSONReader) Skip() bool {
	r.space()
	if r.at >= len(r.data) {
		return false
	}
	switch c := r.data[r.at]; {
	case c == '"':
		_, plain, ok := r.text()
		return ok && plain
	case c == '[':
		return r.Take('[') && r.Take(']')
	case isDigit(c):
		from := r.at
		for r.at < len(r.data) && isDigit(r.data[r.at]) {
			r.at++
		}
		return c != '0' || r.at-from == 1
	}
	return r.Null() || r.word("true") || r.word("false")
}
