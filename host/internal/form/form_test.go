package form

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const every = `{"type":"object","properties":{
	"zone":{"type":"string","title":"Zone","description":"Where","minLength":2,"maxLength":5},
	"mail":{"type":"string","format":"email"}, "page":{"type":"string","format":"uri"},
	"day":{"type":"string","format":"date"}, "at":{"type":"string","format":"date-time","default":"2026-01-02T03:04:05Z"},
	"size":{"type":"integer","minimum":1,"maximum":9}, "rate":{"type":"number"}, "sure":{"type":"boolean","default":true},
	"colour":{"type":"string","enum":["red","blue"],"enumNames":["Red","Blue, dark"]},
	"level":{"type":"string","oneOf":[{"const":"a","title":"Low"},{"const":"b","title":"High"}]},
	"some":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y","z, w"]}},
	"more":{"type":"array","items":{"anyOf":[{"const":"1st","title":"First"},{"const":"2nd","title":"Second"}]}}
},"required":["zone","some"]}`

func parsed(t *testing.T) *Form {
	t.Helper()
	f, err := Parse(json.RawMessage(every))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Fields keep their order, and a typed line is a value that is valid under the schema or an error.
func TestFieldsRead(t *testing.T) {
	t.Parallel()
	f := parsed(t)
	var names, kinds []string
	byName := map[string]*Field{}
	for i := range f.Fields {
		x := &f.Fields[i]
		names, kinds, byName[x.Name] = append(names, x.Name), append(kinds, x.Kind.String()), x
	}
	if got := strings.Join(names, " "); got != "zone mail page day at size rate sure colour level some more" {
		t.Errorf("fields %s", got)
	}
	if got := strings.Join(kinds, ", "); got != "text, text, text, text, text, whole number, number, yes or no, one of the list, one of the list, any of the list, any of the list" {
		t.Errorf("kinds %s", got)
	}
	for _, tc := range []struct{ field, line, want string }{ // a want without a JSON value is a part of the error
		{"zone", "abc", `"abc"`}, {"zone", "", "!required"}, {"zone", "a", "!minLength"}, {"zone", "abcdef", "!maxLength"}, {"zone", `""`, "!minLength"},
		{"mail", "a@b.test", `"a@b.test"`}, {"mail", "", ""}, {"mail", "Name <a@b.test>", "!email"}, {"mail", "x", "!email"}, {"mail", `""`, "!email"},
		{"page", "https://a.test/b", `"https://a.test/b"`}, {"page", "a/b", "!URI"},
		{"day", "2026-02-28", `"2026-02-28"`}, {"day", "2026-02-30", "!date"},
		{"at", "", `"2026-01-02T03:04:05Z"`}, {"at", "2026-01-02", "!date and time"},
		{"size", "3", "3"}, {"size", "0", "!minimum"}, {"size", "10", "!maximum"}, {"size", "3.5", "!integer"}, {"size", `"3"`, "!not a number"}, {"size", "x", "!not a number"}, {"size", "null", "!not a number"},
		{"rate", "-1.5e3", "-1.5e3"}, {"rate", "NaN", "!not a number"}, {"rate", "1 2", "!not a number"},
		{"sure", "", "true"}, {"sure", "No", "false"}, {"sure", "y", "true"}, {"sure", "maybe", "!yes or no"},
		{"colour", "2", `"blue"`}, {"colour", "RED", `"red"`}, {"colour", "Blue, dark", `"blue"`}, {"colour", "3", "!not in the list"}, {"colour", "green", "!not in the list"},
		{"level", "High", `"b"`}, {"level", "1", `"a"`}, {"level", "c", "!not in the list"},
		{"some", "1, z, w", "!not in the list"}, {"some", "z, w", `["z, w"]`}, {"some", "1,3", `["x","z, w"]`}, {"some", "1, 1", `["x"]`}, {"some", "1,2,3", "!maxItems"}, {"some", "none", "!minItems"},
		{"more", "none", "[]"}, {"more", "First,2nd", `["1st","2nd"]`}, {"more", "", ""},
	} {
		v, err := byName[tc.field].Read(tc.line)
		if part, fails := strings.CutPrefix(tc.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s, %q: %s, %v, want an error with %q", tc.field, tc.line, v, err, part)
			}
		} else if err != nil || string(v) != tc.want {
			t.Errorf("%s, %q: %s, %v, want %s", tc.field, tc.line, v, err, tc.want)
		}
	}
	if c := byName["colour"].Options[1]; c.Label() != "Blue, dark" || byName["some"].Options[0].Label() != "x" {
		t.Errorf("labels %q, %q", c.Label(), byName["some"].Options[0].Label())
	}
}

// An answer is an object with the form's fields, all that are required, and no others.
func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	f := parsed(t)
	values := make([]json.RawMessage, len(f.Fields))
	values[0], values[5], values[10] = json.RawMessage(`"ab"`), json.RawMessage("3"), json.RawMessage(`["x"]`)
	if got, err := f.Object(values); err != nil || string(got) != `{"zone":"ab","size":3,"some":["x"]}` {
		t.Errorf("%s, %v", got, err)
	}
	for answer, part := range map[string]string{
		`{"zone":"ab","some":["x"]}`:                  "",
		`{"zone":"ab"}`:                               "some",
		`{"zone":"ab","some":["x"],"other":1}`:        `no field "other"`,
		`{"zone":"ab","some":["x"],"size":"3"}`:       `"size"`,
		`{"zone":"ab","some":["x"],"mail":"no"}`:      "email",
		`{"zone":"ab","some":["x"],"colour":"green"}`: `"colour"`,
		`"ab"`: "not a JSON object",
		`null`: "not a JSON object",
		``:     "not a JSON object",
	} {
		if err := f.Check(json.RawMessage(answer)); (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", answer, err, part)
		}
	}
	empty, err := Parse(json.RawMessage(`{"type":"object"}`))
	if err != nil || len(empty.Fields) != 0 || empty.Check(json.RawMessage(`{}`)) != nil {
		t.Errorf("a form without fields: %+v, %v", empty, err)
	}
}

// A schema that a person can't fill in field by field is no form.
func TestSchemasThatAreNoForms(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"f%d":{"type":"string"}`, i)
		}
		return `{"type":"object","properties":{` + strings.Join(fields, ",") + `}}`
	}
	if _, err := Parse(json.RawMessage(many(MaxFields))); err != nil {
		t.Errorf("%d fields: %v", MaxFields, err)
	}
	property := func(p string) string { return `{"type":"object","properties":{"a":` + p + `}}` }
	for schema, part := range map[string]string{
		``: "schema", `[]`: "schema", `{}`: "object", `{"type":"string"}`: "object",
		many(MaxFields + 1):                                                                 "fields",
		property(`{"type":"object"}`):                                                       "must be a string",
		property(`{"type":"array"}`):                                                        "must be a string",
		property(`{"type":["string","null"]}`):                                              "must be a string",
		property(`true`):                                                                    "must be a string",
		property(`{"type":"array","items":{}}`):                                             "must list",
		property(`{"enum":[{}]}`):                                                           "choices must be",
		property(`{"oneOf":[{"type":"string"}]}`):                                           "must have a const",
		property(`{"type":"integer","default":"x"}`):                                        "default",
		property(`{"type":"string","format":"date","default":"x"}`):                         "default",
		property(`{"$ref":"#/$defs/x"}`):                                                    "",
		`{"type":"object","required":["b"]}`:                                                `"b"`,
		`{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"number"}}}`:      "twice",
		property(`{"type":"string","description":"` + strings.Repeat("x", maxBytes) + `"}`): "bytes",
	} {
		if f, err := Parse(json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.80s: %+v, %v, want an error with %q", schema, f, err, part)
		}
	}
}

// Whatever is typed into whatever form, nothing is read that the form does not accept.
func FuzzRead(f *testing.F) {
	f.Add(every, "1, 2")
	f.Add(`{"type":"object","properties":{"a":{"type":"number"}}}`, "1e999")
	f.Fuzz(func(t *testing.T, schema, line string) {
		parsed, err := Parse(json.RawMessage(schema))
		if err != nil {
			return
		}
		for i := range parsed.Fields {
			x := &parsed.Fields[i]
			v, err := x.Read(line)
			if err == nil && v != nil && x.check(v) != nil {
				t.Errorf("field %q read %q as %s, which it does not accept", x.Name, line, v)
			}
		}
	})
}
