package contract

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// overlapping is a schema whose alternatives both go on with each nested array: the library's time doubles with each level.
const overlapping = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"string"}]}}}`

// tree is one whose alternatives exclude each other by their types.
const tree = `{"$ref":"#/$defs/v","$defs":{"v":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"array","items":{"$ref":"#/$defs/v"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/v"}}]}}}`

func compile(t *testing.T, schema string) *Validator {
	t.Helper()
	s, err := ParseSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func nested(n int) string { return strings.Repeat("[", n) + `"x"` + strings.Repeat("]", n) }

func TestValidationIsBounded(t *testing.T) {
	wide := `{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"}` + strings.Repeat(`,{"type":"integer"}`, 2_000) + `]}}}`
	for _, tc := range []struct {
		name, schema, value string
		bounded             bool
	}{
		{"a few levels of overlapping alternatives", overlapping, nested(8), false},
		{"many levels of overlapping alternatives", overlapping, nested(40), true},
		{"the same below properties", strings.NewReplacer(`"array"`, `"object"`, `"items"`, `"additionalProperties"`).Replace(overlapping), strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat("}", 40), true},
		{"the same below patterns", strings.NewReplacer(`"array"`, `"object"`, `"items":{"$ref":"#/$defs/n"}`, `"patternProperties":{"a":{"$ref":"#/$defs/n"}}`).Replace(overlapping), strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat("}", 40), true},
		{"alternatives of different types", tree, nested(200), false},
		{"a large list", tree, "[" + strings.Repeat("1,", 50_000) + "1]", false},
		{"a large text", tree, `"` + strings.Repeat("x", 4<<20) + `"`, false},
		{"a text that each of many alternatives would print", wide, `{"a":"` + strings.Repeat("x", 4<<20) + `"}`, true},
		{"errors that are copied at each of many levels", `{"items":{"$ref":"#"},"maxItems":1,"type":"array"}`, nested(9000), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var value any
			if err := json.Unmarshal([]byte(tc.value), &value); err != nil {
				t.Fatal(err)
			}
			if err := compile(t, tc.schema).Validate(value); errors.Is(err, ErrSchemaSteps) != tc.bounded {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// A default is validated before a tool is offered.
func TestDefaultsAreBounded(t *testing.T) {
	for value, want := range map[string]string{nested(4): "", nested(40): ErrSchemaSteps.Error(), `1`: "validating"} {
		schema := strings.Replace(overlapping, `{"$ref"`, `{"default":`+value+`,"$ref"`, 1)
		if err := checkSchema(json.RawMessage(schema), false); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20s: %v, want %q", value, err, want)
		}
	}
}
