package protocol

import (
	"encoding/json"
	"unicode/utf8"
)

// JSONReader decodes frames of a known structure in one pass. Vendors send thousands of similar frames for a response, and this
// takes a fraction of the time of encoding/json. It only supports simple JSON: if any method returns false, the frame must be
// decoded with encoding/json, and the result must be the same. Whitespace between values is skipped.
type JSONReader struct {
	data []byte
	at   int
}

// Begin starts a frame, whose bytes must not change until End.
func (r *JSONReader) Begin(data []byte) { r.data, r.at = data, 0 }

// End reports whether the whole frame was consumed, and releases it.
func (r *JSONReader) End() bool {
	r.space()
	all := r.at == len(r.data)
	r.data, r.at = nil, 0
	return all
}

// Take consumes c if it is next.
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

// Key reads the name of a field and the colon. It rejects names that encoding/json could match to another field because it ignores
// case.
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

// Same reads a string that is usually equal to last, the one in the previous frame, in which case it is not allocated again.
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

// text reads a string and returns the bytes between its quotes. plain is set if it has no escapes.
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

// Number reads a non-negative integer.
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

// Null consumes null if it is next.
func (r *JSONReader) Null() bool { return r.word("null") }

func (r *JSONReader) word(w string) bool {
	r.space()
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// Skip skips a value that is ignored: a simple string, a keyword, an integer, an empty list.
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
