package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Arguments from a model are validated against a plugin's schema. A validation that never ends would block the host.
func TestHostileSchemas(t *testing.T) {
	doubling := `{"$defs":{"a0":{"type":"string"}`
	for i := 1; i <= 30; i++ {
		doubling += fmt.Sprintf(`,"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%[2]d"}]}`, i, i-1)
	}
	for _, tc := range []struct{ schema, want string }{
		{`{"$ref":"#"}`, "never end"}, {`{"$ref":"#","default":1}`, "never end"}, {`{"allOf":[{"$ref":"#"}]}`, "never end"}, {`{"AllOf":[{"$ref":"#"}]}`, "never end"},
		{`{"not":{"$ref":"#"}}`, "never end"}, {`{"if":{},"then":{"$ref":"#"}}`, "never end"}, {`{"dependentSchemas":{"a":{"$ref":"#"}}}`, "never end"},
		{`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"properties":{"x":{"$ref":"#/$defs/a"}}}`, "never end"},
		{`{"$anchor":"a","oneOf":[{"$ref":"#a"}]}`, "never end"}, {`{"$id":"http://x/y","oneOf":[{"$ref":"http://x/y"}]}`, "never end"},
		{`{"properties":{"A":{"allOf":[{"$ref":"#/properties/%41"}]},"%41":{}}}`, "never end"},
		{`{"$id":"http://r/","properties":{"a":{"$id":"z"},"b":{"$id":"http://b/","properties":{"c":{"$id":"z","allOf":[{"$ref":"z"}]}}}}}`, "$id is not supported"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"$id":"#f","properties":{"a":{}},"not":{"$ref":"#/properties/a"}}],"properties":{"a":{"$ref":"#"}}}`, "$id is not supported"},
		{`{"$id":"http://x/y","properties":{"a":{"$ref":"y"}}}`, "does not lead to a schema"},
		{`{"$dynamicAnchor":"a","$dynamicRef":"#a"}`, "not supported"}, {`{"$ref":"http://x/y"}`, "does not lead to a schema"}, {`{"$ref":"#/$defs/none"}`, "does not lead to a schema"},
		{doubling + `},"$ref":"#/$defs/a30"}`, "multiply"},
		{strings.Repeat(`{"items":`, 4900) + `{}` + strings.Repeat(`}`, 4900), "deep"}, {strings.Repeat(`[`, 1_000_000), "deep"},
		{`{"description":"` + strings.Repeat("x", 2<<20) + `"}`, "bytes"}, {`{`, "not a JSON Schema"}, {`{"type":`, "not a JSON Schema"},
	} {
		if _, err := ParseSchema(json.RawMessage(tc.schema)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.100s: %v, want %q", tc.schema, err, tc.want)
		}
	}
	for _, ok := range []string{
		`{}`, `true`, `{"type":"object","properties":{"a":{"type":"string"},"$ref":{"type":"string"}}}`,
		`{"$defs":{"n":{"properties":{"left":{"$ref":"#/$defs/n"},"right":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}}}},"$ref":"#/$defs/n"}`,
		`{"properties":{"children":{"type":"array","items":{"$ref":"#"}}}}`, `{"definitions":{"a/b":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a~1b"}}}`,
		`{"properties":{"x":{"type":"string"},"y":{"$ref":"#/properties/x"}}}`, `{"allOf":[{"type":"object"}],"properties":{"y":{"$ref":"#/allOf/0"}}}`,
		`{"$id":"http://x/y","properties":{"a":{"$id":"http://x/z","type":"string"}}}`, `{"properties":{"a b/c~":{"type":"string"},"y":{"$ref":"#/properties/a%20b~1c~0"}}}`,
		`{"type":"array","items":{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"$ref":"#"},{"type":"string"}]}}`,
		`{"$id":"http://x/y","$defs":{"a":{"$anchor":"here"}},"properties":{"y":{"$ref":"#here"},"z":{"$ref":"http://x/y#/$defs/a"}}}`,
	} {
		s, err := ParseSchema(json.RawMessage(ok))
		if err != nil {
			t.Errorf("%s: %v", ok, err)
			continue
		}
		if _, err := Compile(s); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

// A recursive schema is no loop, whichever of its parts is looked at first.
func TestRecursiveSchemas(t *testing.T) {
	for range 100 {
		if _, err := ParseSchema(json.RawMessage(`{"$defs":{"n":{"properties":{"left":{"$ref":"#/$defs/n"},"right":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}}}},"$ref":"#/$defs/n"}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// What is parsed can be validated with: the test binary survives, and each validation ends.
func FuzzParseSchema(f *testing.F) {
	for _, seed := range []string{
		`{"$defs":{"n":{"properties":{"left":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`,
		`{"$id":"http://x/y","anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#b"},"c":{"$anchor":"b"}}}`,
		`{"allOf":[{"$ref":"#"}],"properties":{"x":{"$ref":"#/allOf/0"}}}`,
		`{"properties":{"x":{"allOf":[{"$ref":"#/properties/%78"}]},"%78":{}}}`,
	} {
		f.Add([]byte(seed), []byte(`{"x":[{"left":"y"}]}`))
	}
	f.Add([]byte(overlapping), []byte(strings.Repeat("[", 40)+"1"+strings.Repeat("]", 40)))
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		s, err := ParseSchema(raw)
		if err != nil {
			return
		}
		v, err := Compile(s)
		if err != nil || v.checkDefaults() != nil {
			return
		}
		var x any
		if json.Unmarshal(value, &x) == nil {
			_ = v.Validate(x)
		}
	})
}

// The errors of a set of many tools are those of each tool, in the order of the tools.
func TestManyToolsAreValidated(t *testing.T) {
	tools := make([]Descriptor, 1000)
	for i := range tools {
		tools[i] = Descriptor{Name: fmt.Sprintf("t%d", i), InputSchema: json.RawMessage(`{"type":"object"}`)}
	}
	if err := ValidateTools(tools); err != nil {
		t.Fatal(err)
	}
	tools[3].Name, tools[500].Name, tools[999].InputSchema = "a b", "t7", nil
	err := ValidateTools(tools)
	want := `tool "a b": use 1 to 64 letters, digits and underscores
tool "t7": declared twice in the namespace ""
tool "t999": an input schema or a freeform grammar is required`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	// Only a tool that is equal to a valid one is not checked again.
	valid := slices.Clone(tools)
	valid[999].InputSchema = json.RawMessage(`{"type":"object"}`)
	if err := ValidateTools(tools, valid...); err == nil || err.Error() != strings.Join(strings.Split(want, "\n")[1:], "\n") {
		t.Errorf("with valid ones: %v", err)
	}
}
