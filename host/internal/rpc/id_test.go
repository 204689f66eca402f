package rpc

import (
	"encoding/json"
	"testing"
)

func TestID(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want ID
		out  string // empty: an error
	}{
		{`0`, IntID(0), `0`},
		{`-7`, IntID(-7), `-7`},
		{`-0`, IntID(0), `0`},
		{`9223372036854775807`, IntID(1<<63 - 1), `9223372036854775807`},
		{`-9223372036854775808`, IntID(-1 << 63), `-9223372036854775808`},
		{`""`, StringID(""), `""`},
		{`"init-1"`, StringID("init-1"), `"init-1"`},
		{`"7"`, StringID("7"), `"7"`},
		{`"é\n\"\\"`, StringID("é\n\"\\"), `"é\n\"\\"`},
		{`"\u0061"`, StringID("a"), `"a"`},
		{`"\ud83d\ude00"`, StringID("😀"), `"😀"`},
		{` 1 `, IntID(1), `1`},
		{`9223372036854775808`, ID{}, ``},
		{`18446744073709551609`, ID{}, ``},
		{`1.5`, ID{}, ``},
		{`1.0`, ID{}, ``},
		{`1e3`, ID{}, ``},
		{`null`, ID{}, ``},
		{`true`, ID{}, ``},
		{`{}`, ID{}, ``},
		{`[1]`, ID{}, ``},
		{`"\ud800"`, ID{}, ``}, // has no equal in UTF-8
	} {
		var id ID
		err := id.UnmarshalJSON([]byte(tt.in)) // directly, because json.Unmarshal handles null itself for some types
		if (err == nil) != (tt.out != "") {
			t.Errorf("%s: error %v", tt.in, err)
		}
		if id != tt.want {
			t.Errorf("%s: id %v, want %v", tt.in, id, tt.want)
		}
		if tt.out == "" {
			continue
		}
		if b, err := json.Marshal(id); string(b) != tt.out || err != nil {
			t.Errorf("%s: marshalled as %s, %v", tt.in, b, err)
		}
	}
}

func TestIDsOfDifferentKindsDiffer(t *testing.T) {
	if StringID("7") == IntID(7) || StringID("") == (ID{}) || IntID(0) == (ID{}) {
		t.Error("IDs of different kinds are equal")
	}
}

// FuzzID checks that an ID is refused, or survives a round trip and equals what encoding/json reads.
func FuzzID(f *testing.F) {
	for _, s := range []string{`1`, `-0`, `"a"`, `"\u0061"`, `"\ud800"`, `1.5`, `null`, `9223372036854775808`, `"\ud83d\ude00"`, `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var id ID
		if json.Unmarshal([]byte(s), &id) != nil || id.IsZero() {
			return
		}
		b, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		var again ID
		if err := json.Unmarshal(b, &again); err != nil || again != id {
			t.Fatalf("%q: %v became %v (%v)", s, id, again, err)
		}
		var want any
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatalf("accepted %q, which is not JSON", s)
		}
		if text, ok := want.(string); ok && StringID(text) != id {
			t.Fatalf("%q is %v", s, id)
		}
	})
}
