package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// message is a received message.
type message struct {
	kind   messageKind
	id     ID
	method string
	params json.RawMessage // nil: absent
	result json.RawMessage // of a response without an error
	err    *Error          // of a response; of garbage, what to answer with, or nil
	seq    json.RawMessage
	part   json.RawMessage
	sentAt json.RawMessage
}

type messageKind uint8

const (
	garbage messageKind = iota
	request
	notification
	response
)

// detail is the data of an error of this package, in the form of the server's errors.
type detail struct {
	Kind string `json:"kind"`
	Next string `json:"next"`
}

// decode takes a message apart. It checks the syntax of the whole message, but looks only at the members of the outermost object; those
// that it does not know, such as "jsonrpc" and "trace", are ignored, and of members with the same name the last one counts.
func decode(b []byte) message {
	b = bytes.TrimSpace(b)
	if !utf8.Valid(b) {
		return refuse(ID{}, ParseError, "parse error: message is not valid UTF-8", "send JSON in UTF-8")
	}
	if !json.Valid(b) {
		return refuse(ID{}, ParseError, "parse error: "+syntaxError(b), "send one JSON object per message, without newlines inside it")
	}
	switch b[0] {
	case '{':
	case '[':
		return refuse(ID{}, InvalidRequest, "invalid request: batches are not supported", "send each request as a message of its own")
	default:
		return refuse(ID{}, InvalidRequest, "invalid request: not an object", `send an object with "id" and "method"`)
	}
	return classify(b)
}

// classify decodes valid JSON of an object.
func classify(b []byte) message {
	var m message
	var id, method, result, failure []byte
	members(b, func(name, value []byte) {
		switch memberName(name) {
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			m.params = value
		case "result":
			result = value
		case "error":
			failure = value
		case "seq":
			m.seq = value
		case "part":
			m.part = value
		case "emittedAtMs":
			m.sentAt = value
		}
	})
	var badID error
	if id != nil {
		m.id, badID = parseID(id)
	}
	switch {
	case method != nil:
		if badID != nil {
			return refuse(ID{}, InvalidRequest, "invalid request: "+badID.Error(), "send a string or an integer as the id, or none for a notification")
		}
		if method[0] != '"' {
			return refuse(m.id, InvalidRequest, "invalid request: method is not a string", "send the name of the method as a string")
		}
		m.method = text(method)
		m.kind = request
		if id == nil {
			m.kind = notification
		}
	case result != nil || failure != nil:
		if id == nil || badID != nil {
			return message{} // an answer to an answer could go on for ever
		}
		m.kind, m.params = response, nil
		if failure != nil && !isNull(failure) {
			m.err = decodeError(failure)
		} else if m.result = result; result == nil {
			m.err = &Error{Code: InvalidRequest, Message: "malformed response: error is null"}
		}
	default:
		return refuse(m.id, InvalidRequest, "invalid request: missing method", `send an object with "id" and "method"`)
	}
	return m
}

func refuse(id ID, code int64, msg, next string) message {
	kind := "invalidRequest"
	if code == ParseError {
		kind = "parseError"
	}
	return message{id: id, err: &Error{Code: code, Message: msg, Data: detail{kind, next}}}
}

func decodeError(b []byte) *Error {
	var e struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return &Error{Code: InvalidRequest, Message: "malformed error in a response"}
	}
	out := &Error{Code: e.Code, Message: e.Message}
	if e.Data != nil {
		out.Data = e.Data
	}
	return out
}

// oversized returns the answer to a message that was skipped. It has the id of a request if that precedes what makes the message large.
func oversized(e *TooLargeError) message {
	var id ID
	members(e.Head, func(name, value []byte) {
		if memberName(name) == "id" {
			id, _ = parseID(value)
		}
	})
	m := refuse(id, InvalidRequest, "invalid request: "+e.Error(), "send less in one message; refer to large files by path")
	return m
}

// syntaxError describes what is wrong with b, which is not valid JSON.
func syntaxError(b []byte) string {
	var into json.RawMessage
	err := json.Unmarshal(b, &into)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v at byte %d", syntax, syntax.Offset)
	}
	return "invalid JSON"
}

// Member returns the value of an object's member, or nil. It reads the object without decoding it, for [Config.Route]; of a name that
// occurs more than once, the last value counts, as with encoding/json.
func Member(object json.RawMessage, name string) json.RawMessage {
	var found json.RawMessage
	members(object, func(n, value []byte) {
		if memberName(n) == name {
			found = value
		}
	})
	return found
}

// members yields the members of an object: the raw name with its quotes, and the raw value. It checks no syntax: of JSON that is not valid, or
// is cut off, it yields some members that are complete.
func members(b []byte, yield func(name, value []byte)) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	i++
	for {
		start := skipSpace(b, i)
		if start >= len(b) || b[start] != '"' {
			return
		}
		end := skipString(b, start)
		colon := skipSpace(b, end)
		if colon >= len(b) || b[colon] != ':' {
			return
		}
		from := skipSpace(b, colon+1)
		to := skipValue(b, from)
		after := skipSpace(b, to)
		if after >= len(b) || to == from {
			return
		}
		yield(b[start:end], b[from:to])
		if b[after] != ',' {
			return
		}
		i = after + 1
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		// The quote ends the string unless an odd number of backslashes precedes it.
		i += n
		slashes := 0
		for slashes < n && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

// memberName returns the name that the JSON string b is.
func memberName(b []byte) string {
	if bytes.IndexByte(b, '\\') >= 0 {
		return text(b)
	}
	return string(b[1 : len(b)-1]) // does not allocate in a switch
}

// text returns the value of the JSON string b.
func text(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1])
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return "" // cut off
	}
	return s
}

// notification returns what a client reads of a notification. Numbers that are not numbers are left out.
func (m message) notification() Notification {
	n := Notification{Method: m.method}
	if m.params != nil {
		n.Params = m.params
	}
	n.Seq, _ = strconv.ParseUint(string(m.seq), 10, 64)
	n.Part, _ = strconv.Atoi(string(m.part))
	n.EmittedAtMs, _ = strconv.ParseInt(string(m.sentAt), 10, 64)
	return n
}

func isNull(b []byte) bool { return string(b) == "null" }
