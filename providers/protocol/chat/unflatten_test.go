package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFlatArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"edits":{"type":"array","items":{"type":"object"}},
		"where":{"type":["object","null"]},
		"any":{"$ref":"#/$defs/x"},
		"plain":{"type":"string"},
		"a.b":{"type":"string"}}}`
	tests := []struct {
		name, args, want string // want empty: as they are
	}{
		{"a list of objects", `{"edits[0].path":"a","edits[0].text":"b","edits[1].path":"c"}`, `{"edits":[{"path":"a","text":"b"},{"path":"c"}]}`},
		{"beside others, in their place", `{"plain":"p","edits[0]":1,"where.x":2}`, `{"plain":"p","edits":[1],"where":{"x":2}}`},
		{"out of order", `{"edits[1]":"b","edits[0]":"a"}`, `{"edits":["a","b"]}`},
		{"lists in lists", `{"edits[0][0]":1,"edits[0][1].x":2}`, `{"edits":[[1,{"x":2}]]}`},
		{"values stay as they are", `{"where.x":{"n":1e3,"s":"\u00e9"}}`, `{"where":{"x":{"n":1e3,"s":"\u00e9"}}}`},
		{"a type that stands elsewhere", `{"any.x":1}`, `{"any":{"x":1}}`},
		{"a property that has dots in its name", `{"a.b":"x"}`, ""},
		{"a property that is plain", `{"plain[0]":"x"}`, ""},
		{"a property nobody knows", `{"other[0]":"x"}`, ""},
		{"nested already", `{"edits":[{"path":"a[0].b"}]}`, ""},
		{"holes in a list", `{"edits[0]":1,"edits[2]":2}`, ""},
		{"a list and an object at once", `{"edits[0]":1,"edits.x":2}`, ""},
		{"a value and something inside it", `{"where.x":1,"where.x.y":2}`, ""},
		{"something inside a value", `{"where.x.y":2,"where.x":1}`, ""},
		{"one path twice", `{"where.x":1,"where.x":2}`, ""},
		{"the whole property as well", `{"where":{"x":1},"where.y":2}`, ""},
		{"malformed paths stay", `{"edits[0":1,"edits[x]":2,"edits[01]":3,"edits[-1]":4,"edits..a":5,"edits.":6,"[0]":7,".edits":8,"edits[0]a":9,"edits]":10}`, ""},
		{"prototypes stay, others go on", `{"where.__proto__":1,"where.constructor.x":2,"where.y":3}`, `{"where.__proto__":1,"where.constructor.x":2,"where":{"y":3}}`},
		{"too deep", `{"where` + strings.Repeat(".a", maxSteps) + `":1}`, ""},
		{"no object", `["edits[0]"]`, ""},
		{"no JSON", `{"edits[0]":`, ""},
		{"nothing", ``, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, changed := unflattened(tt.args, []byte(schema))
			want := tt.want
			if want == "" {
				want = tt.args
			}
			if got != want || changed != (tt.want != "") {
				t.Errorf("arguments %s (changed %v), want %s", got, changed, want)
			}
		})
	}
	if _, changed := unflattened(`{"edits[0]":1}`, nil); changed {
		t.Error("arguments of a tool without a schema were changed")
	}
}

func FuzzFlatArguments(f *testing.F) {
	f.Add(`{"a[0].b":1,"a[1]":{"x":2}}`)
	f.Add(`{"a.b":1,"a.b.c":2,"b":3}`)
	f.Add(`{"a[0":1,"a.__proto__":2}`)
	schema := []byte(`{"properties":{"a":{"type":"array"},"b":{"type":"object"},"c":{}}}`)
	f.Fuzz(func(t *testing.T, args string) {
		got, changed := unflattened(args, schema)
		if !changed && got != args {
			t.Errorf("unchanged arguments %q became %q", args, got)
		}
		if json.Valid([]byte(args)) && !json.Valid([]byte(got)) {
			t.Errorf("arguments %q became %q, which is no JSON", args, got)
		}
	})
}
