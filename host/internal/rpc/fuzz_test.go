package rpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzConn checks that every request with a valid id gets exactly one answer, whatever is around it.
func FuzzConn(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"a"}` + "\n" + `{"id":"b","method":"b","params":{"Key":"k"}}` + "\n" + `{"id":1,"method":"panic"}`))
	f.Add([]byte("\n\n[]\n" + `{"id":null,"method":"a"}` + "\nx\n" + `{"id":7,"result":1}` + "\n" + `{"method":"n"}`))
	f.Add([]byte(`{"id":1,"method":"a","params":"0123456789012345678901234567890123456789012345678901234567890123456789"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		want := map[ID]int{}
		for _, line := range bytes.Split(in, []byte("\n")) {
			var obj map[string]json.RawMessage
			if len(line) > 80 || !utf8.Valid(line) || json.Unmarshal(line, &obj) != nil {
				continue
			}
			var id ID
			var method *string
			if json.Unmarshal(obj["id"], &id) == nil && !id.IsZero() && json.Unmarshal(obj["method"], &method) == nil && method != nil {
				want[id]++
			}
		}
		var out bytes.Buffer
		c := New(Lines(bytes.NewReader(in), &out, nil), Config{Route: route, MaxMessage: 80, MaxGarbage: 1 << 30, MaxRequests: 3, Handle: echo})
		if err := c.Serve(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[ID]int{}
		for line := range strings.Lines(out.String()) {
			var reply struct {
				ID     json.RawMessage
				Result *json.RawMessage
				Error  *Error
			}
			if err := json.Unmarshal([]byte(line), &reply); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			var id ID
			if err := json.Unmarshal(reply.ID, &id); err != nil || reply.Error != nil && reply.Error.Code != Internal {
				continue // an answer to garbage
			}
			got[id]++
		}
		for id, n := range want {
			if got[id] != n {
				t.Errorf("%v was answered %d times, want %d:\n%s", id, got[id], n, out.String())
			}
		}
	})
}
