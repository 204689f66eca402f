package rpc

import (
	"encoding/json"
	"unicode/utf8"
)

// appendText appends a JSON string.
func appendText(dst []byte, s string) []byte {
	if isPlain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		panic("rpc: marshal a string: " + err.Error())
	}
	return append(dst, b...)
}

// isPlain reports whether s is a JSON string as it is, between quotes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
