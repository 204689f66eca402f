package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Failure is a vendor's error response in any form.
type Failure struct {
	Status     int           // HTTP status; 0: none, as for an error within a stream
	Codes      []string      // values of code and type, in any case
	Message    string        // the vendor's message, shown to users
	Body       string        // the rest of the response; searched, but not shown
	RetryAfter time.Duration // 0: not stated
	RequestID  string
}

// maxUpstream limits the shown message of a router's upstream provider.
const maxUpstream = 300

// ParseFailure parses the error objects of vendors: {"error":{"message","code","type","status"}}, {"error":"text"},
// {"object":"error","message"}, {"type":"error","error":{…}}, {"message"}, {"detail"}, and a list with one of them. ok is false if
// body contains none of these. A null or empty error is none.
func ParseFailure(body []byte) (f Failure, ok bool) {
	outer := fields(body)
	if outer == nil {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) != 1 {
			return Failure{}, false
		}
		if outer = fields(list[0]); outer == nil {
			return Failure{}, false
		}
	}
	f.Body = string(body)
	if inner := fields(outer["error"]); len(inner) > 0 {
		f.take(inner)
		f.code(outer["code"])
		f.RetryAfter = retryInfo(inner["details"])
		f.upstream(fields(inner["metadata"]))
		return f, true
	}
	message := textOf(outer["error"])
	marked := textOf(outer["object"]) == "error" || textOf(outer["type"]) == "error"
	if message == "" && !marked && messageOf(outer) == "" && firstDetail(outer["detail"]) == "" {
		return Failure{}, false
	}
	f.take(outer)
	if message != "" {
		f.Message = message
	}
	return f, true
}

// take reads the fields of an error object.
func (f *Failure) take(m map[string]json.RawMessage) {
	for _, k := range []string{"code", "type", "status"} {
		f.code(m[k])
	}
	if f.Message = messageOf(m); f.Message == "" {
		f.Message = firstDetail(m["detail"])
	}
}

// messageOf returns the message of an error object, for which AWS has two spellings.
func messageOf(m map[string]json.RawMessage) string {
	if s := textOf(m["message"]); s != "" {
		return s
	}
	return textOf(m["Message"])
}

// code adds a value of code, type or status. Some vendors set it to the HTTP status.
func (f *Failure) code(raw json.RawMessage) {
	s := textOf(raw)
	if s == "" {
		s = string(raw)
		if n, err := strconv.Atoi(s); err != nil || n < 100 || n > 599 {
			return
		}
	}
	if n, err := strconv.Atoi(s); err == nil {
		if n >= 100 && n <= 599 && f.Status == 0 {
			f.Status = n
		}
		return
	}
	if s = strings.ToLower(s); s != "error" { // the marker of an error object rather than a code
		f.Codes = append(f.Codes, s)
	}
}

// upstream adds the message of a router's upstream provider, if the router's own message only says that there was an error.
func (f *Failure) upstream(metadata map[string]json.RawMessage) {
	raw := textOf(metadata["raw"])
	if raw == "" || !strings.EqualFold(strings.TrimSuffix(f.Message, "."), "provider returned error") {
		return
	}
	if inner, ok := ParseFailure([]byte(raw)); ok && inner.Message != "" {
		raw = inner.Message
	}
	if len(raw) > maxUpstream {
		raw = strings.ToValidUTF8(raw[:maxUpstream], "") + "…"
	}
	f.Message += ": " + raw
}

// fields returns the fields of a JSON object, or nil for other values.
func fields(raw []byte) map[string]json.RawMessage {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// textOf returns a JSON string, or "" for other values.
func textOf(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// firstDetail returns a detail that is a string, or the first message in a list.
func firstDetail(raw json.RawMessage) string {
	if s := textOf(raw); s != "" {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	for _, d := range list {
		if s := textOf(fields(d)["msg"]); s != "" {
			return s
		}
	}
	return ""
}

// retryInfo returns the delay in Google's error details.
func retryInfo(details json.RawMessage) time.Duration {
	var list []json.RawMessage
	if json.Unmarshal(details, &list) != nil {
		return 0
	}
	for _, d := range list {
		if t, err := time.ParseDuration(textOf(fields(d)["retryDelay"])); err == nil && t > 0 {
			return t
		}
	}
	return 0
}
