package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// encodeValue returns v as JSON without newlines. A json.RawMessage is returned as it is, if it has none.
func encodeValue(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		if bytes.IndexByte(raw, '\n') < 0 {
			return raw, nil
		}
		var buf bytes.Buffer // a newline would end the message
		err := json.Compact(&buf, raw)
		return buf.Bytes(), err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // output is full of these characters, and no client embeds it in HTML
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes()[:buf.Len()-1], nil
}

// envelope is a message to send. Its fields are in the order of the wire, and left out if they are zero.
type envelope struct {
	id     ID
	noID   bool // the id is null
	method string
	params []byte
	result []byte
	err    []byte
	seq    uint64
	part   int
	sentAt int64
}

// append appends the message, with the version of JSON-RPC if versioned is set.
func (e *envelope) append(dst []byte, versioned bool) []byte {
	dst = append(dst, '{')
	if versioned {
		dst = append(dst, `"jsonrpc":"2.0",`...)
	}
	if !e.id.IsZero() || e.noID {
		dst = e.id.append(append(dst, `"id":`...))
		dst = append(dst, ',')
	}
	if e.method != "" {
		dst = appendText(append(dst, `"method":`...), e.method)
		dst = append(dst, ',')
	}
	if len(e.params) > 0 {
		dst = append(append(dst, `"params":`...), e.params...)
		dst = append(dst, ',')
	}
	if len(e.result) > 0 {
		dst = append(append(dst, `"result":`...), e.result...)
		dst = append(dst, ',')
	}
	if len(e.err) > 0 {
		dst = append(append(dst, `"error":`...), e.err...)
		dst = append(dst, ',')
	}
	if e.seq != 0 {
		dst = strconv.AppendUint(append(dst, `"seq":`...), e.seq, 10)
		dst = append(dst, ',')
	}
	if e.part != 0 {
		dst = strconv.AppendInt(append(dst, `"part":`...), int64(e.part), 10)
		dst = append(dst, ',')
	}
	if e.sentAt != 0 {
		dst = strconv.AppendInt(append(dst, `"emittedAtMs":`...), e.sentAt, 10)
		dst = append(dst, ',')
	}
	dst[len(dst)-1] = '}' // every message has a member
	return dst
}

// size is at least the length of the message.
func (e *envelope) size() int {
	return len(e.id.text) + len(e.method) + len(e.params) + len(e.result) + len(e.err) + 128
}

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

// isPlain reports whether s is a JSON string as it is, between quotes. The ids and methods that it is for are ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
