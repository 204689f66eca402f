package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestSchema(t *testing.T) {
	prop := func(s string) string { return `{"properties":{"a":` + s + `},"type":"object"}` }
	for _, tc := range []struct {
		in, want  string
		unchecked bool
		err       string
	}{
		{``, `{"properties":{},"type":"object"}`, false, ""},
		{`{"type":"object"}`, `{"properties":{},"type":"object"}`, false, ""},
		{`{}`, `{"properties":{},"type":"object"}`, false, ""},
		{`{"type":["object","null"],"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"properties":{},"type":"object"}`, false, ""},
		{`{"type":"null"}`, ``, false, "tool input schema must not be a singleton null type"},
		{`{"type":"string"}`, ``, false, `the type must be "object"`},
		{`[]`, ``, false, "not a JSON object"},
		{`{"type":"object"`, ``, false, "not JSON"},
		{prop(`true`), prop(`{"type":"string"}`), true, ""},
		{prop(`{"const":1}`), prop(`{"enum":[1],"type":"string"}`), true, ""},
		{prop(`{"type":"integer","const":1}`), prop(`{"enum":[1],"type":"integer"}`), false, ""},
		{prop(`{"properties":{}}`), prop(`{"properties":{},"type":"object"}`), true, ""},
		{prop(`{"required":["x"]}`), prop(`{"properties":{},"required":["x"],"type":"object"}`), true, ""},
		{prop(`{"prefixItems":[{"type":"null"}]}`), prop(`{"prefixItems":[{"type":"null"}],"type":"array"}`), true, ""},
		{prop(`{"format":"date"}`), prop(`{"format":"date","type":"string"}`), true, ""},
		{prop(`{"maximum":3}`), prop(`{"maximum":3,"type":"number"}`), true, ""},
		{prop(`{"description":"anything"}`), prop(`{}`), false, ""},
		{prop(`{"type":"array"}`), prop(`{"items":{"type":"string"},"type":"array"}`), true, ""},
		{prop(`{"type":"array","items":true}`), prop(`{"items":{"type":"string"},"type":"array"}`), true, ""},
		{prop(`{"type":"object","additionalProperties":false}`), prop(`{"additionalProperties":false,"properties":{},"type":"object"}`), false, ""},
		{`{"type":"object","$defs":{"a":{"type":"string"},"b":{"type":"null"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`,
			`{"$defs":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a"}},"type":"object"}`, false, ""},
		{`{"type":"object","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"type":"null"},"c":{"$ref":"#/definitions/c"}},"properties":{"x":{"$ref":"#/definitions/a"}}}`,
			`{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"type":"null"}},"properties":{"x":{"$ref":"#/definitions/a"}},"type":"object"}`, false, ""},
		// What real servers have, and no host checks.
		{prop(`{"type":"string","pattern":"^(?=x)"}`), prop(`{"pattern":"^(?=x)","type":"string"}`), true, ""},
		{prop(`{"type":"integer","default":"x"}`), prop(`{"default":"x","type":"integer"}`), true, ""},
		{prop(`{"$ref":"#/$defs/missing"}`), prop(`{"$ref":"#/$defs/missing"}`), true, ""},
		{prop(`{"$ref":"https://example.com/x.json"}`), prop(`{"$ref":"https://example.com/x.json"}`), true, ""},
		{prop(`{"type":"number","minimum":1,"exclusiveMinimum":true}`), prop(`{"exclusiveMinimum":true,"minimum":1,"type":"number"}`), true, ""},
		{`{"type":["object"],"required":true,"properties":[]}`, `{"properties":{},"type":"object"}`, false, ""},
		{prop(`{"$ref":"#/properties/a"}`), prop(`{"$ref":"#/properties/a"}`), true, ""},
		{prop(`{"type":"number","default":12345678901234567890}`), prop(`{"default":12345678901234567890,"type":"number"}`), false, ""},
		{`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, ``, false, "nested more than 100 levels deep"},
		{`{"x":"` + strings.Repeat("x", maxSchemaRead) + `"}`, ``, false, "the maximum is 1048576"},
		{`{"enum":["` + strings.Repeat("x", maxSchemaKept) + `"]}`, ``, false, "the maximum is 65536"},
	} {
		got, unchecked, err := Schema(json.RawMessage(tc.in))
		in := tc.in[:min(len(tc.in), 100)]
		switch {
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: error %v, want one with %q", in, err, tc.err)
		case tc.err == "" && (err != nil || string(got) != tc.want || unchecked != tc.unchecked):
			t.Errorf("%s:\n%s unchecked %v, %v; want\n%s unchecked %v", in, got, unchecked, err, tc.want, tc.unchecked)
		}
	}
}

func TestLargeSchemaIsReduced(t *testing.T) {
	words := strings.Repeat("word ", 200)
	property := func(name, more string) string {
		return fmt.Sprintf(`"%s":{"type":"object","description":%q,"properties":{"description":{"type":"object","properties":{"deep":{"type":"object","properties":{"deeper":{"type":"string"}%s}}}}}}`, name, words, more)
	}
	schema := func(properties int, more string) string {
		var list []string
		for i := range properties {
			list = append(list, property(fmt.Sprintf("p%d", i), more))
		}
		return `{"type":"object","$defs":{"d":{"type":"string","title":"` + words + `"}},"properties":{` + strings.Join(list, ",") +
			`,"r":{"$ref":"#/$defs/d"},"n":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`
	}
	for _, tc := range []struct {
		name, in  string
		has, lost []string
	}{
		{"small", schema(1, ""), []string{words, `"$ref"`, `"deeper"`, `"anyOf"`}, nil},
		{"descriptions", schema(8, ""), []string{`"title"`, `"$ref"`, `"deeper"`, `"anyOf"`, `"description":{"properties"`}, []string{words[:900] + `","properties`}},
		{"definitions", schema(26, ""), []string{`"r":{}`, `"deeper"`, `"anyOf"`}, []string{`"$defs"`, `"$ref"`}},
		{"depth", schema(30, `,"even":{"type":"string"}`), []string{`"deep":{"properties":{},"type":"object"}`, `"anyOf"`}, []string{`"deeper"`}},
		{"alternatives", schema(100, ""), []string{`"n":{}`}, []string{`"anyOf"`}},
	} {
		got, unchecked, err := Schema(json.RawMessage(tc.in))
		if err != nil || unchecked {
			t.Errorf("%s: unchecked %v, %v", tc.name, unchecked, err)
		}
		for _, s := range tc.has {
			if !strings.Contains(string(got), s) {
				t.Errorf("%s: the schema of %d bytes has lost %.60s", tc.name, len(got), s)
			}
		}
		for _, s := range tc.lost {
			if strings.Contains(string(got), s) {
				t.Errorf("%s: the schema of %d bytes still has %.60s", tc.name, len(got), s)
			}
		}
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":true,"b":{"const":1},"c":{"items":[{}]}},"required":["a",1]}`,
		`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"type":["object"],"properties":{"a":{"type":"array","items":{"not":{}}}},"definitions":[],"dependentSchemas":{"a":false}}`,
		`{"additionalProperties":{"pattern":"("},"description":"` + "\u202e" + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, unchecked, err := Schema(raw)
		if err != nil {
			return
		}
		d := contract.Descriptor{Name: "t", InputSchema: got, UncheckedArguments: unchecked}
		if err := d.Validate(); err != nil || len(got) > maxSchemaKept {
			t.Fatalf("a schema of %d bytes that the host refuses: %v\n%s", len(got), err, got)
		}
		again, twice, err := Schema(got)
		if err != nil || string(again) != string(got) && len(got) <= maxSchemaShown || twice && !unchecked {
			t.Fatalf("repaired again, %s becomes %s, unchecked %v, %v", got, again, twice, err)
		}
	})
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\nü 👩‍👧":                  "plain\ttext\nü 👩‍👧",
		"a\x1b[31mred\x00\x7f\u0085":          "a[31mred",
		"\u202egnp.exe\u2066x\u2069":          "gnp.exex",
		"hid\u200bden\ufeff\U000e0041":        "hidden",
		"two\u2028lines":                      "two\nlines",
		"bad\xff":                             "bad\uFFFD",
		strings.Repeat("ü", 40):               strings.Repeat("ü", 14) + "…",
		"0123456789012345678901234567ü901234": "0123456789012345678901234567…",
	} {
		if got := Text(in, 32); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := Line(" a\n\nb\t c ", 32); got != "a b c" {
		t.Errorf("line %q", got)
	}
	if got := Output("a\x1b[0m\u202e\r\n\u200b"); got != "a\uFFFD[0m\uFFFD\r\n\u200b" {
		t.Errorf("output %q", got)
	}
	in := []byte(`{"a":"x` + "\u202e\u0085ü" + `"}`)
	var a, b map[string]string
	got := OutputJSON(in)
	if json.Unmarshal(in, &a) != nil || json.Unmarshal(got, &b) != nil || a["a"] != b["a"] || string(got) != `{"a":"x\u202e\u0085ü"}` {
		t.Errorf("JSON %s", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\u202e\x1b", 10)
	f.Fuzz(func(t *testing.T, s string, max int) {
		max = 4 + max&0xff
		got := Text(s, max)
		if len(got) > max || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || reorders(r)
		}) {
			t.Fatalf("%q", got)
		}
		if line := Line(s, max); len(line) > max || strings.ContainsAny(line, "\n\t") {
			t.Fatalf("%q", line)
		}
	})
}

func TestParseTool(t *testing.T) {
	got, err := ParseTool(json.RawMessage(`{"name":"create-event","description":5,"title":"T\u202e","inputSchema":{"type":"object"},
		"outputSchema":{"type":"object","properties":{"n":{"type":"number"}}},"annotations":{"readOnlyHint":true,"destructiveHint":"yes","title":"other"},"icons":7}`))
	if err != nil || got.Name != "create-event" || got.Description != "" || got.Title != "T" || got.Annotations.ReadOnly == nil || !*got.Annotations.ReadOnly ||
		got.Annotations.Destructive != nil || string(got.Output) != `{"properties":{"n":{"type":"number"}},"type":"object"}` {
		t.Errorf("%+v, %v", got, err)
	}
	digest := func(s string) string {
		t.Helper()
		tool, err := ParseTool(json.RawMessage(s))
		if err != nil {
			t.Fatal(err)
		}
		return tool.Digest
	}
	a := digest(`{"name":"a","description":"x","inputSchema":{"type":"object","properties":{}}}`)
	if a != digest(`{"inputSchema":{"properties":{},"type":"object"},"description":"x","name":"a"}`) {
		t.Error("the digest depends on the order of keys")
	}
	if a == digest(`{"name":"a","description":"y","inputSchema":{"type":"object","properties":{}}}`) {
		t.Error("the digest does not depend on the description")
	}
}

// pages is a server's list.
func pages(list ...string) Fetch {
	i := -1
	return func(context.Context, string) (json.RawMessage, error) {
		i++
		if i >= len(list) {
			return nil, errors.New("no more pages")
		}
		return json.RawMessage(list[i]), nil
	}
}

func TestList(t *testing.T) {
	var names []string
	for i := range MaxItems + 1 {
		names = append(names, fmt.Sprintf(`{"name":"x%d"}`, i))
	}
	many := `{"tools":[` + strings.Join(names, ",") + `]}`
	endless := make([]string, MaxPages+1)
	for i := range endless {
		endless[i] = fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, i)
	}
	for _, tc := range []struct {
		name     string
		fetch    Fetch
		choice   Choice
		want     string
		problems string
		err      string
	}{
		{"two pages", pages(`{"tools":[{"name":"b"}],"nextCursor":"1"}`, `{"tools":[{"name":"a"}]}`), Choice{}, "b a", "", ""},
		{"M7: a cursor that repeats", pages(`{"tools":[{"name":"a"}],"nextCursor":"1"}`, `{"tools":[],"nextCursor":"1"}`), Choice{}, "", "", "does not end"},
		{"a list without end", pages(endless...), Choice{}, "", "", "more than 100 pages"},
		{"a cursor that is too long", pages(`{"tools":[],"nextCursor":"` + strings.Repeat("x", maxCursor+1) + `"}`), Choice{}, "", "", "the maximum is 65536"},
		{"a cursor of another type", pages(`{"tools":[],"nextCursor":5}`), Choice{}, "", "", "not a string"},
		{"too many", pages(many), Choice{}, "", "", "choose some with allow"},
		{"few of too many", pages(many), Choice{Allow: []string{"x7", "x20*", "x99*"}, Deny: []string{"x20*", "*1", "x7"}}, "x99 x990 x992 x993 x994 x995 x996 x997 x998 x999", "", ""},
		{"one that is bad", pages(`{"tools":[{"name":"a"},null,{"name":""},{"name":"b","inputSchema":5},{"name":"a"},{"name":"c"},7]}`), Choice{}, "a c", "the name of a tool|the name of a tool|the tool \"b\": input schema|listed twice|not a JSON object", ""},
		{"one for people only", pages(`{"tools":[{"name":"a","_meta":{"ui":{"visibility":["app"]}}},{"name":"b","_meta":{"ui":{"visibility":["app","model"]}}},{"name":"c","_meta":5}]}`), Choice{}, "b c", "", ""},
		{"no list", pages(`{"prompts":[]}`), Choice{}, "", "", `no list named "tools"`},
		{"no object", pages(`[]`), Choice{}, "", "", "not a JSON object"},
		{"failure", pages(), Choice{}, "", "", "no more pages"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tools, problems, err := List(t.Context(), tc.fetch, tc.choice)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools {
				names = append(names, tool.Name)
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("tools %q, want %q", got, tc.want)
			}
			if tc.problems == "" && len(problems) > 0 {
				t.Error(problems)
			}
			for i, want := range strings.Split(tc.problems, "|") {
				if want != "" && (i >= len(problems) || !strings.Contains(problems[i].Error(), want)) {
					t.Errorf("problem %d of %v is not %q", i, problems, want)
				}
			}
		})
	}
}

func TestListIsBounded(t *testing.T) {
	var items []string
	for i := range 300 {
		items = append(items, fmt.Sprintf(`{"name":"x%d","description":%q}`, i, strings.Repeat("x", 20<<10)))
	}
	tools, problems, err := List(t.Context(), pages(`{"tools":[`+strings.Join(items, ",")+`]}`), Choice{})
	if err != nil || len(tools) == 0 || len(tools) == 300 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "tools are left out") {
		t.Errorf("%d tools, %v, %v", len(tools), problems, err)
	}
	bad := `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"b","inputSchema":5},`, 1000), ",") + `]}`
	if _, problems, err := List(t.Context(), pages(bad), Choice{}); err != nil || len(problems) != maxProblems+1 {
		t.Errorf("%d problems, %v", len(problems), err)
	}
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"get_*", "get_x", true}, {"get_*", "xget_x", false}, {"*", "", true}, {"*_issue", "create_issue", true}, {"a*b*c", "aXbYc", true},
		{"a*b*c", "acb", false}, {"a*a", "a", false}, {"a", "a", true}, {"a", "ab", false}, {"a/*", "a/b/c", true}, {"a*bc*c", "abc", false},
	} {
		if match(tc.pattern, tc.name) != tc.want {
			t.Errorf("%q and %q: %v", tc.pattern, tc.name, !tc.want)
		}
	}
}

// The schema of a result contains that of its structured content if what that refers to is still found.
func TestResultSchema(t *testing.T) {
	const around = `"properties":{"content":{"items":{"type":"object"},"type":"array"},"isError":{"type":"boolean"},"structuredContent":%s},"required":["content"],"type":"object"}`
	for schema, want := range map[string]string{
		``: ``, `5`: ``,
		`{"type":"object","properties":{"n":{"type":"number"}}}`:                                    "{" + fmt.Sprintf(around, `{"properties":{"n":{"type":"number"}},"type":"object"}`),
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`: `{"$defs":{"n":{"type":"number"}},` + fmt.Sprintf(around, `{"properties":{"n":{"$ref":"#/$defs/n"}},"type":"object"}`),
		`{"type":"object","properties":{"n":{"$ref":"#"}}}`:                                         ``,
		`{"type":"object","$defs":{"n":{"$ref":"#/properties/x"}}}`:                                 ``,
		`{"type":"object","$id":"https://x.test/a"}`:                                                ``,
		`{"type":"object","properties":{"$ref":{"type":"string"},"$id":{"type":"string"}}}`:         "{" + fmt.Sprintf(around, `{"properties":{"$id":{"type":"string"},"$ref":{"type":"string"}},"type":"object"}`),
	} {
		if got := ResultSchema(json.RawMessage(schema)); string(got) != want {
			t.Errorf("%s:\n%s, want\n%s", schema, got, want)
		}
	}
}
