package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
)

func TestSanitisedRoot(t *testing.T) {
	t.Parallel()
	const empty = `{"type":"object","properties":{}}`
	for _, tc := range []struct{ in, want string }{
		{`{"properties":{"b":{"enum":[1]},"a":{}}, "type":"object"}`, `{"properties":{"b":{"enum":[1]},"a":{}}, "type":"object"}`},
		{``, empty}, {`null`, empty}, {`[]`, empty}, {`true`, empty}, {`"x"`, empty}, {`{`, empty}, {`{}`, empty},
		{`{"type":"object"}`, empty},
		{`{"type":"object","properties":null}`, empty},
		{`{"type":"string","enum":["a"],"description":"d"}`, `{"type":"object","description":"d","properties":{}}`},
		{`{"properties":{"a":{"default":1.0}},"additionalProperties":false}`, `{"type":"object","properties":{"a":{"default":1.0}},"additionalProperties":false}`},
		{`{"type":["object","null"],"properties":{}}`, empty},
		{`{"anyOf":[{"type":"object"}],"properties":{}}`, `{"type":"object","anyOf":[{"type":"object"}],"properties":{}}`},
	} {
		for _, dialect := range []string{"", "none"} {
			if got := string(protocol.Sanitised(json.RawMessage(tc.in), dialect)); got != tc.want {
				t.Errorf("%q: %s becomes %s, want %s", dialect, tc.in, got, tc.want)
			}
		}
	}
}

// property wraps the schema of one property, since a root is always an object.
func property(schema string) string { return `{"type":"object","properties":{"p":` + schema + `}}` }

type schemaCase struct{ name, in, want string }

func sanitise(t *testing.T, dialect string, cases []schemaCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in, want := tc.in, tc.want
			if !strings.Contains(in, `"properties":{"p":`) {
				in, want = property(in), property(want)
			}
			if got := string(protocol.Sanitised(json.RawMessage(in), dialect)); got != want {
				t.Errorf("%s\nbecomes %s\nwant    %s", in, got, want)
			}
		})
	}
}

func TestSanitisedForGemini(t *testing.T) {
	t.Parallel()
	sanitise(t, "gemini", []schemaCase{
		{"what is not known goes", `{"type":"string","title":"t","default":"x","pattern":"a","minLength":1,"maxLength":2,"description":"d"}`,
			`{"type":"string","minLength":1,"description":"d"}`},
		{"integers to choose from", `{"type":"integer","enum":[1,2]}`, `{"type":"string","enum":["1","2"]}`},
		{"values of all kinds", `{"enum":["a",1.5,true,null,{"b":1}]}`, `{"enum":["a","1.5","true","{\"b\":1}"],"nullable":true,"type":"string"}`},
		{"a choice of objects", `{"type":"object","properties":{"p":{"type":"object","properties":{"a":{}},"enum":[{}]}}}`,
			`{"type":"object","properties":{"p":{"type":"object","properties":{"a":{}}}}}`},
		{"a constant", `{"const":"a","description":"d"}`, `{"enum":["a"],"description":"d","type":"string"}`},
		{"required of what is there", `{"type":"object","properties":{"p":{"type":"string"}},"required":["p","q",1]}`,
			`{"type":"object","properties":{"p":{"type":"string"}},"required":["p"]}`},
		{"required of nothing", `{"type":"object","properties":{"p":{"type":"string"}},"required":["q"]}`,
			`{"type":"object","properties":{"p":{"type":"string"}}}`},
		{"a list of anything", `{"type":"array"}`, `{"type":"array","items":{"type":"string"}}`},
		{"a list of true", `{"type":"array","items":true}`, `{"type":"array","items":{"type":"string"}}`},
		{"a list of nothing said", `{"type":"array","items":{"title":"x"}}`, `{"type":"array","items":{"type":"string"}}`},
		{"a list of places", `{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false}`,
			`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}`},
		{"a list of one place", `{"type":"array","prefixItems":[{"type":"number"}]}`, `{"type":"array","items":{"type":"number"}}`},
		{"properties of a text", `{"type":"string","properties":{"a":{}},"required":["a"],"items":{}}`, `{"type":"string"}`},
		{"a type that is not said", `{"properties":{"a":{"items":{"type":"string"}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`},
		{"one type or null", `{"type":["string","null"],"description":"d"}`, `{"type":"string","description":"d","nullable":true}`},
		{"several types or null", `{"type":["array","string","null"],"items":{"type":"number"},"description":"d"}`,
			`{"description":"d","nullable":true,"anyOf":[{"type":"array","items":{"type":"number"}},{"type":"string"}]}`},
		{"only null", `{"type":["null"]}`, `{"nullable":true}`},
		{"a schema or null", `{"anyOf":[{"type":"string","minLength":1},{"type":"null"}],"title":"t","default":null}`,
			`{"type":"string","minLength":1,"nullable":true}`},
		{"schemas or null", `{"oneOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`,
			`{"oneOf":[{"type":"string"},{"type":"integer"}],"nullable":true}`},
		{"null or null", `{"anyOf":[{"type":"null"}],"description":"d"}`, `{"description":"d","nullable":true}`},
		{"several types beside alternatives", `{"type":["string","integer"],"anyOf":[{"minLength":1},{"format":"int32"}]}`,
			`{"type":"string","anyOf":[{"minLength":1},{"format":"int32"}]}`},
		{"all of one", `{"allOf":[{"type":"string"}],"description":"d"}`, `{"type":"string","description":"d"}`},
		{"alternatives that are none", `{"type":"string","anyOf":"x","oneOf":[true]}`, `{"type":"string"}`},
		{"formats", `{"type":"object","properties":{"p":{"type":"string","format":"uri"},"q":{"type":"string","format":"date-time"}}}`,
			`{"type":"object","properties":{"p":{"type":"string"},"q":{"type":"string","format":"date-time"}}}`},
		{"properties called like keywords", `{"type":"object","properties":{"p":{"type":"object","properties":{"enum":{"type":"string"},"$ref":{"type":"string"}}}}}`,
			`{"type":"object","properties":{"p":{"type":"object","properties":{"enum":{"type":"string"},"$ref":{"type":"string"}}}}}`},
		{"a reference", `{"type":"object","properties":{"p":{"$ref":"#/$defs/a~1b","description":"here"}},"$defs":{"a/b":{"type":"string","description":"there"}}}`,
			`{"type":"object","properties":{"p":{"type":"string","description":"here"}}}`},
		{"a reference or null", `{"type":"object","properties":{"p":{"anyOf":[{"$ref":"#/definitions/a"},{"type":"null"}]}},"definitions":{"a":{"type":"string"}}}`,
			`{"type":"object","properties":{"p":{"type":"string","nullable":true}}}`},
		{"a reference to itself", `{"type":"object","properties":{"p":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`,
			`{"type":"object","properties":{"p":{"type":"object","properties":{"next":{}}}}}`},
		{"a reference to nowhere", `{"type":"object","properties":{"p":{"$ref":"#/$defs/x"},"q":{"$ref":"http://x"},"r":{"$ref":"#/type/x"}}}`,
			`{"type":"object","properties":{"p":{},"q":{},"r":{}}}`},
		{"a root of another kind", `{"type":"array","items":{"properties":{"p":{}}}}`, `{"type":"object","properties":{}}`},
	})
}

func TestSanitisedForMoonshot(t *testing.T) {
	t.Parallel()
	sanitise(t, "moonshot", []schemaCase{
		{"the type of texts", `{"enum":["a","b"]}`, `{"type":"string","enum":["a","b"]}`},
		{"the type of whole numbers", `{"description":"d","enum":[1,2]}`, `{"type":"integer","description":"d","enum":[1,2]}`},
		{"a type that is said", `{"type":["string","null"],"enum":["a",null]}`, `{"type":["string","null"],"enum":["a",null]}`},
		{"values of several types", `{"enum":["a",1,"b",null,1.5,true]}`,
			`{"anyOf":[{"type":"string","enum":["a","b"]},{"type":"integer","enum":[1]},{"type":"null"},{"type":"number","enum":[1.5]},{"type":"boolean","enum":[true]}]}`},
		{"values beside alternatives", `{"enum":["a",1],"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"}]}`},
		{"no values", `{"enum":[]}`, `{}`},
		{"a list of places", `{"type":"array","items":[{"type":"string"},{"enum":[1]}]}`,
			`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"integer","enum":[1]}]}}`},
		{"places and the rest", `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}}`,
			`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}`},
		{"no places", `{"type":"array","items":[]}`, `{"type":"array"}`},
		{"bounds", `{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}`, `{"type":"integer","minimum":1,"maximum":9}`},
		{"bounds between whole numbers", `{"type":"integer","exclusiveMinimum":0.5,"exclusiveMaximum":9.5}`, `{"type":"integer","minimum":1,"maximum":9}`},
		{"the narrower bound", `{"type":"integer","minimum":5,"exclusiveMinimum":0,"maximum":99,"exclusiveMaximum":10}`, `{"type":"integer","minimum":5,"maximum":9}`},
		{"bounds as flags", `{"type":"integer","minimum":5,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}`, `{"type":"integer","minimum":6,"maximum":9}`},
		{"bounds of other numbers", `{"type":"number","exclusiveMinimum":0}`, `{"type":"number","exclusiveMinimum":0}`},
		{"a bound beyond counting", `{"type":"integer","exclusiveMinimum":1e300}`, `{"type":"integer","exclusiveMinimum":1e300}`},
		{"all of one reference", `{"description":"d","allOf":[{"$ref":"#/$defs/a"}],"default":1}`, `{"description":"d","$ref":"#/$defs/a","default":1}`},
		{"all of a reference with more to it", `{"allOf":[{"$ref":"#/$defs/a","title":"t"}]}`, `{"allOf":[{"$ref":"#/$defs/a","title":"t"}]}`},
		{"all of a reference and more", `{"allOf":[{"$ref":"#/$defs/a"},{"type":"string"}]}`, `{"allOf":[{"$ref":"#/$defs/a"},{"type":"string"}]}`},
		{"one of, by a tag", `{"oneOf":[{"type":"object"}],"discriminator":{"propertyName":"k"}}`, `{"anyOf":[{"type":"object"}]}`},
		{"one of beside any of", `{"oneOf":[{"type":"object"}],"anyOf":[{"enum":[1]}]}`, `{"oneOf":[{"type":"object"}],"anyOf":[{"type":"integer","enum":[1]}]}`},
		{"everywhere", `{"type":"object","properties":{"p":{}},"$defs":{"a":{"enum":[1]}},"additionalProperties":{"enum":["x"]},"allOf":[{"not":{"enum":[true]}}]}`,
			`{"type":"object","properties":{"p":{}},"$defs":{"a":{"type":"integer","enum":[1]}},"additionalProperties":{"type":"string","enum":["x"]},"allOf":[{"not":{"type":"boolean","enum":[true]}}]}`},
		{"properties called like keywords", `{"type":"object","properties":{"p":{"type":"object","properties":{"enum":{"type":"array"}}}}}`,
			`{"type":"object","properties":{"p":{"type":"object","properties":{"enum":{"type":"array"}}}}}`},
	})
}

// A schema of a few hundred bytes whose references unfold to more than memory holds.
func TestReferencesUnfoldWithinBounds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"p":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&b, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	b.WriteString(`"d40":{"type":"string"}}}`)
	if got := protocol.Sanitised(json.RawMessage(b.String()), "gemini"); !json.Valid(got) || len(got) > 2<<20 {
		t.Errorf("%d bytes", len(got))
	}
}

// sound checks what a dialect promises of each schema.
func sound(v any, dialect string) error {
	s, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if dialect == "gemini" {
		for k := range s {
			if !slices.Contains([]string{"description", "required", "format", "type", "nullable", "enum", "properties", "items", "allOf", "anyOf", "oneOf", "minLength"}, k) {
				return fmt.Errorf("%s is not known there", k)
			}
		}
		if s["type"] == "array" && s["items"] == nil {
			return fmt.Errorf("a list without items")
		}
		named, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := named[name.(string)]; !ok {
				return fmt.Errorf("%v is required and not there", name)
			}
		}
	}
	if _, ok := s["enum"].([]any); ok && s["type"] == nil {
		return fmt.Errorf("an enum without a type")
	}
	for k, below := range s {
		var schemas []any
		switch b := below.(type) {
		case []any:
			if k == "items" {
				return fmt.Errorf("items for each place")
			}
			if k == "anyOf" || k == "oneOf" || k == "allOf" {
				schemas = b
			}
		case map[string]any:
			switch k {
			case "items", "not", "additionalProperties":
				schemas = []any{b}
			case "properties", "$defs":
				for _, p := range b {
					schemas = append(schemas, p)
				}
			}
		}
		for _, s := range schemas {
			if err := sound(s, dialect); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	return nil
}

func checkSanitised(in []byte) error {
	before := bytes.Clone(in)
	for _, dialect := range []string{"", "gemini", "moonshot"} {
		once := protocol.Sanitised(in, dialect)
		if !bytes.Equal(in, before) {
			return fmt.Errorf("%q changed its input to %s", dialect, in)
		}
		var root map[string]any
		if err := json.Unmarshal(once, &root); err != nil {
			return fmt.Errorf("%q makes %s: %w", dialect, once, err)
		}
		if _, ok := root["properties"].(map[string]any); !ok || root["type"] != "object" {
			return fmt.Errorf("%q makes a root that is no object: %s", dialect, once)
		}
		if dialect == "" {
			continue
		}
		if err := sound(root, dialect); err != nil {
			return fmt.Errorf("%q makes %s: %w", dialect, once, err)
		}
		if twice := protocol.Sanitised(once, dialect); !bytes.Equal(once, twice) {
			return fmt.Errorf("%q makes %s\nand of that %s", dialect, once, twice)
		}
	}
	return nil
}

func drawnSchema(t *rapid.T, depth int) any {
	s := map[string]any{}
	below := func() any {
		if depth <= 0 {
			return rapid.SampledFrom([]any{true, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "null"}}).Draw(t, "leaf")
		}
		return drawnSchema(t, depth-1)
	}
	list := func() []any {
		var out []any
		for range rapid.IntRange(0, 3).Draw(t, "schemas") {
			out = append(out, below())
		}
		return out
	}
	for range rapid.IntRange(0, 4).Draw(t, "keywords") {
		switch k := rapid.SampledFrom([]string{
			"type", "type", "enum", "const", "items", "prefixItems", "properties", "required", "anyOf", "oneOf", "allOf", "$ref", "$defs",
			"exclusiveMinimum", "minimum", "nullable", "format", "not", "description", "additionalProperties",
		}).Draw(t, "keyword"); k {
		case "type":
			s[k] = rapid.SampledFrom([]any{
				"object", "array", "string", "integer", "null", []any{"string", "null"}, []any{"array", "object", "null"}, []any{"integer", "string"}, []any{}, 3, nil,
			}).Draw(t, "type")
		case "enum":
			s[k] = rapid.SampledFrom([]any{[]any{"a"}, []any{1, 2}, []any{nil}, []any{"a", 1, nil, true, 1.5}, []any{}, "x"}).Draw(t, "enum")
		case "const", "description":
			s[k] = rapid.SampledFrom([]any{"a", 1, nil}).Draw(t, "const")
		case "items":
			if rapid.Bool().Draw(t, "tuple") {
				s[k] = list()
			} else {
				s[k] = below()
			}
		case "prefixItems", "anyOf", "oneOf", "allOf":
			s[k] = list()
		case "properties", "$defs":
			s[k] = map[string]any{"a": below(), "enum": below()}
		case "required":
			s[k] = []any{"a", "b", 1}
		case "$ref":
			s[k] = rapid.SampledFrom([]any{"#/$defs/a", "#/$defs/enum", "#", "#/x", "http://x", 3}).Draw(t, "ref")
		case "exclusiveMinimum", "minimum":
			s[k] = rapid.SampledFrom([]any{true, 0, 1.5, -3, 1e300}).Draw(t, "bound")
		case "nullable":
			s[k] = rapid.Bool().Draw(t, "nullable")
		case "format":
			s[k] = rapid.SampledFrom([]any{"uri", "date-time", 3}).Draw(t, "format")
		case "not", "additionalProperties":
			s[k] = below()
		}
	}
	return s
}

func TestSanitisedSchemasAreSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.Marshal(drawnSchema(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkSanitised(in); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
	})
}

func FuzzSanitised(f *testing.F) {
	for _, s := range []string{
		`{"type":["array","object"],"items":[{"$ref":"#"}],"enum":[1,null]}`, `{"properties":{"a":{"oneOf":[{"const":1},{"type":"null"}]}}}`,
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"exclusiveMinimum":1,"type":"integer"}}}`, `[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := checkSanitised(in); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
	})
}
