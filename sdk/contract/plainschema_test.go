package contract

import (
	"bytes"
	"encoding/json"
	"testing"
)

// plainSchemas are examples, with whether they are plain.
func plainSchemas() map[string]bool {
	return map[string]bool{
		`{"type":"object"}`: true,
		`{"type":"object","properties":{"a":{"type":"string","enum":["x",null,1],"description":"d","minLength":1},"b":{"type":"array","items":{"type":"integer","minimum":-1.5}}},"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"type":"string","format":"date"}]}},"additionalProperties":{"title":"t"}}`:                                                                                 true,
		`{"type":["object"]}`: false, `{"type":"thing"}`: false, `{"type":"object","pattern":"("}`: false, `{"type":"object","default":{}}`: false,
		`{"type":"object","properties":{"a":{"$ref":"#/b"}}}`: false, `{"type":"object","required":[1]}`: false, `{"type":"object","minLength":1.5}`: false,
		`{"type":"object","exclusiveMinimum":true}`: false, `{"type":"object","properties":[]}`: false, `{"type":"object","Type":5}`: false, `[]`: false, `true`: false,
		`{"type":"object","properties":{"a":{"maxLength":-1}}}`: false, `{"type":"object","items":[{}]}`: false, `{"type":"object","$id":"x"}`: false, `{"type":"object`: false,
	}
}

func TestPlainSchemas(t *testing.T) {
	t.Parallel()
	for schema, want := range plainSchemas() {
		if got := compilesForSure(json.RawMessage(schema), true); got != want {
			t.Errorf("%s: %v", schema, got)
		}
	}
	if !compilesForSure(json.RawMessage(`{"type":"string"}`), false) || compilesForSure(json.RawMessage(`{"type":"string"}`), true) {
		t.Error("the type of arguments has to be object")
	}
}

// What is plain compiles.
func FuzzPlainSchemas(f *testing.F) {
	for schema := range plainSchemas() {
		f.Add([]byte(schema))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !compilesForSure(raw, true) {
			return
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		once, err := json.Marshal(v) // of members that appear twice, a schema has the last
		if err != nil {
			t.Fatal(err)
		}
		if err := compileSchema(once, true); err != nil {
			t.Errorf("%s: %v", bytes.TrimSpace(once), err)
		}
	})
}
