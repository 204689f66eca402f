package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ID identifies a request: a string or an int64. It is comparable. The zero ID is neither, and null on the wire.
type ID struct {
	kind idKind
	text string
	num  int64
}

type idKind uint8

const (
	noID idKind = iota
	textID
	intID
)

// StringID returns the ID s.
func StringID(s string) ID { return ID{kind: textID, text: s} }

// IntID returns the ID n.
func IntID(n int64) ID { return ID{kind: intID, num: n} }

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id.kind == noID }

// String returns the ID as JSON.
func (id ID) String() string { return string(id.append(nil)) }

// MarshalJSON implements [json.Marshaler].
func (id ID) MarshalJSON() ([]byte, error) { return id.append(nil), nil }

func (id ID) append(dst []byte) []byte {
	switch id.kind {
	case textID:
		return appendText(dst, id.text)
	case intID:
		return strconv.AppendInt(dst, id.num, 10)
	}
	return append(dst, "null"...)
}

// UnmarshalJSON implements [json.Unmarshaler]. Anything but a string and an integer of 64 bits is an error.
func (id *ID) UnmarshalJSON(b []byte) error {
	parsed, err := parseID(bytes.TrimSpace(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// parseID reads valid JSON without surrounding space.
func parseID(b []byte) (ID, error) {
	if len(b) > 0 && b[0] == '"' {
		if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
			return StringID(string(b[1 : len(b)-1])), nil
		}
		var s string
		// A lone surrogate has no Go string, so that the answer would carry another id than the request.
		if err := json.Unmarshal(b, &s); err != nil || strings.ContainsRune(s, utf8.RuneError) {
			return ID{}, fmt.Errorf("invalid id: not a valid string")
		}
		return StringID(s), nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("invalid id: expected a string or an integer of 64 bits")
	}
	return IntID(n), nil
}
