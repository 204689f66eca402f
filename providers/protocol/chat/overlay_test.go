package chat

import (
	"encoding/json"
	"testing"
)

func TestOverlay(t *testing.T) {
	tests := []struct{ base, over, want string }{
		{`{"x":{"z":2}}`, `{"x":{"y":1}}`, `{"x":{"z":2,"y":1}}`},
		{`{"b":1,"a":2}`, `{"c":3,"a":4}`, `{"b":1,"a":4,"c":3}`},
		{`{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		{`{"a":{"b":1}}`, `{"a":2}`, `{"a":2}`},
		{`{"a":2}`, `{"a":{"b":1,"c":null}}`, `{"a":{"b":1}}`},
		{`{"a":1,"b":{"c":1}}`, `{"a":null,"b":{"c":null},"d":null}`, `{"b":{}}`},
		{`{"a":1}`, `{}`, `{"a":1}`},
		{`{"a":1}`, `{"a":2,"a":3}`, `{"a":3}`},
		{`{}`, `{"<é>":1e9}`, `{"<é>":1e9}`},
	}
	for _, tt := range tests {
		got, err := merged(json.RawMessage(tt.base), json.RawMessage(tt.over))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s over %s is %s (%v), want %s", tt.over, tt.base, got, err, tt.want)
		}
	}
	for _, bad := range []string{``, `1`, `null`, `[]`, `{"a":1`, `{"a":1} {}`, `{"a":{"b":}}`} {
		if got, err := merged(json.RawMessage(`{}`), json.RawMessage(bad)); err == nil {
			t.Errorf("the overlay %q gives %s, want an error", bad, got)
		}
	}
}
