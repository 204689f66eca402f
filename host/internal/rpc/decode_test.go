package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

// describe returns what a message was decoded as.
func describe(m message) string {
	switch m.kind {
	case request:
		return fmt.Sprintf("request %v %s %s", m.id, m.method, m.params)
	case notification:
		return fmt.Sprintf("notification %s %s", m.method, m.params)
	case response:
		if m.err != nil {
			return fmt.Sprintf("failure %v %d %s", m.id, m.err.Code, m.err.Message)
		}
		return fmt.Sprintf("response %v %s", m.id, m.result)
	}
	if m.err == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d id %v: %s", m.err.Code, m.id, m.err.Message)
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"id":1,"method":"a/b","params":{"x":1}}`, `request 1 a/b {"x":1}`},
		{`{"jsonrpc":"2.0","id":"init-1","method":"initialize","trace":{"traceparent":"x"},"params":{},"more":[{"id":3}]}`, `request "init-1" initialize {}`},
		{" {\t\"params\" : [ 1 , \"]}\\\"\" ] ,\r\n \"method\" : \"a\" , \"id\" : -7 } ", `request -7 a [ 1 , "]}\"" ]`},
		{`{"id":1,"method":"a"}`, `request 1 a `},
		{`{"id":1,"method":"a","params":null}`, `request 1 a null`},
		{`{"\u0069d":1,"meth\u006fd":"\u0061","params":{"id":5,"method":"no"}}`, `request 1 a {"id":5,"method":"no"}`},
		{`{"id":1,"method":"a","id":2}`, `request 2 a `},
		{`{"ID":1,"method":"a"}`, `notification a `},
		{`{"method":"initialized"}`, `notification initialized `},
		{`{"method":"x","params":{},"id":7,"result":{}}`, `request 7 x {}`},
		{`{"id":7,"result":{"a":1}}`, `response 7 {"a":1}`},
		{`{"id":"q","result":null}`, `response "q" null`},
		{`{"id":7,"result":{},"error":null}`, `response 7 {}`},
		{`{"id":7,"error":{"code":-32000,"message":"no","data":[1]}}`, `failure 7 -32000 no`},
		{`{"id":7,"result":1,"error":{"code":-32000,"message":"no"}}`, `failure 7 -32000 no`},
		{`{"id":7,"error":5}`, `failure 7 -32600 malformed error in a response`},
		{`{"id":7,"error":null}`, `failure 7 -32600 malformed response: error is null`},
		{`{"id":null,"error":{"code":-32700,"message":"parse"}}`, `nothing`},
		{`{"id":1.5,"result":{}}`, `nothing`},
		{`{"result":{}}`, `nothing`},

		{`{"id":25,`, `-32700 id null: parse error: unexpected end of JSON input at byte 9`},
		{`{"id":25,"method":"a"}}`, `-32700 id null: parse error: invalid character '}' after top-level value at byte 23`},
		{`Content-Length: 12`, `-32700 id null: parse error: invalid character 'C' looking for beginning of value at byte 1`},
		{"{\"id\":1,\"method\":\"\xff\"}", `-32700 id null: parse error: message is not valid UTF-8`},
		{strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000), `-32700 id null: parse error: invalid character '[' exceeded max depth at byte 10001`},
		{`[{"id":1,"method":"a"}]`, `-32600 id null: invalid request: batches are not supported`},
		{`42`, `-32600 id null: invalid request: not an object`},
		{`"a"`, `-32600 id null: invalid request: not an object`},
		{`null`, `-32600 id null: invalid request: not an object`},
		{`{"id":null,"method":"a"}`, `-32600 id null: invalid request: invalid id: expected a string or an integer of 64 bits`},
		{`{"id":1.5,"method":"a"}`, `-32600 id null: invalid request: invalid id: expected a string or an integer of 64 bits`},
		{`{"id":true,"method":"a"}`, `-32600 id null: invalid request: invalid id: expected a string or an integer of 64 bits`},
		{`{"id":{},"method":"a"}`, `-32600 id null: invalid request: invalid id: expected a string or an integer of 64 bits`},
		{`{"id":5,"method":7}`, `-32600 id 5: invalid request: method is not a string`},
		{`{"id":5}`, `-32600 id 5: invalid request: missing method`},
		{`{"id":1.5}`, `-32600 id null: invalid request: missing method`},
		{`{}`, `-32600 id null: invalid request: missing method`},
	} {
		if got := describe(decode([]byte(tt.in))); got != tt.want {
			t.Errorf("%.80s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

func TestOversizedHasTheIDOfTheRequest(t *testing.T) {
	for _, tt := range []struct {
		head string
		want ID
	}{
		{`{"id":5,"method":"a","params":{"text":"xxxx`, IntID(5)},
		{`{"method":"a","id":"b","params":"xxxx`, StringID("b")},
		{`{"params":{"id":5},"method":"`, ID{}},
		{`{"id":5`, ID{}}, // the number may go on
		{`{"id":1.5,"params":[`, ID{}},
		{`xxxxxxxx`, ID{}},
		{``, ID{}},
	} {
		m := oversized(&TooLargeError{Limit: 100, Head: []byte(tt.head)})
		if m.id != tt.want || m.kind != garbage || m.err.Message != "invalid request: message exceeds 100 bytes" {
			t.Errorf("%s: %s", tt.head, describe(m))
		}
	}
}

func TestMember(t *testing.T) {
	object := json.RawMessage(`{"a":{"threadId":"no"},"threadId":"x", "\u0062":[1], "threadId" : "y" }`)
	for name, want := range map[string]string{"threadId": `"y"`, "b": `[1]`, "a": `{"threadId":"no"}`, "c": ``} {
		if got := Member(object, name); string(got) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for _, not := range []string{``, `null`, `[{"threadId":1}]`, `"threadId"`} {
		if got := Member(json.RawMessage(not), "threadId"); got != nil {
			t.Errorf("%s has the member %s", not, got)
		}
	}
}

// FuzzMembers compares the members of an object with those that encoding/json reads.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a" : [1,{"b":"]\\"}] , "c" : "\\\"" , "d":-1e5 } `, `{"a":{"b":{}},"a":null}`, `{"\u0061":"\ud800"}`, `{"a`, `{"a":`, `{"a":1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := map[string]string{}
		members(b, func(name, value []byte) { got[text(name)] = string(value) })
		var want map[string]json.RawMessage
		if !utf8.Valid(b) || json.Unmarshal(b, &want) != nil || want == nil {
			return // only may not panic
		}
		if !maps.EqualFunc(want, got, func(a json.RawMessage, b string) bool { return string(a) == b }) {
			t.Fatalf("%q: got %q, want %q", b, got, want)
		}
	})
}

// FuzzDecode checks that a message is decoded or answered with an error that says something, and that encoding/json agrees.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"id":1,"method":"a","params":{}}`, `{"id":"a","result":{}}`, `{"id":1,"error":{"code":1,"message":"m"}}`, `{"method":"a"}`, `[]`, `1`, `{"id":null,"method":"a"}`, `{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(bytes.TrimSpace(b)) == 0 {
			return // skipped by the stream
		}
		m := decode(b)
		var want struct {
			ID     json.RawMessage
			Method *string
		}
		valid := json.Unmarshal(b, &want) == nil
		switch m.kind {
		case garbage:
			if m.err != nil && (m.err.Code != ParseError && m.err.Code != InvalidRequest || m.err.Message == "") {
				t.Fatalf("%q: %v", b, m.err)
			}
		case request, notification:
			if !json.Valid(b) || (m.kind == request) == m.id.IsZero() {
				t.Fatalf("%q: %s", b, describe(m))
			}
			if valid && want.Method == nil {
				t.Fatalf("%q has no method: %s", b, describe(m))
			}
			if m.params != nil && !json.Valid(m.params) {
				t.Fatalf("%q: params %q", b, m.params)
			}
		case response:
			if m.id.IsZero() || (m.result == nil) == (m.err == nil) {
				t.Fatalf("%q: %s", b, describe(m))
			}
		}
	})
}
