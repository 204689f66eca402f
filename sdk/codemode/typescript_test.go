package codemode

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSchemaType(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"number"}},"required":["name"]}`: "{\n    name: string;\n    age?: number;\n}",
		`{"type":"object"}`: "Record<string, unknown>", `{"type":"object","additionalProperties":false}`: "{}",
		`{"type":"object","additionalProperties":true}`:              "{\n    [key: string]: unknown;\n}",
		`{"type":"object","additionalProperties":{"type":"string"}}`: "{\n    [key: string]: string;\n}",
		`{"enum":["a",null,"b"]}`:                                    `"a" | null | "b"`, `{"enum":[]}`: "never", `{"enum":[{"key":"value"}]}`: `{"key":"value"}`,
		`{"const":null}`: "null",
		`{"$ref":"#/$defs/A","$defs":{"A":{"type":"string"}}}`:                              "string",
		`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"$ref":"#/$defs/~0"},"~":{"type":"null"}}}`: "null",
		`{"$ref":"https://example.com/x"}`:                                                  "unknown", `{"$ref":"#/$defs/none"}`: "unknown",
		`{"type":"object","properties":{"self":{"$ref":"#"}}}`: "{\n    self?: unknown;\n}",
		`{"type":["string","null"]}`:                           "string | null", `{"type":"string","nullable":true}`: "string | null",
		`{"type":["array","object"]}`: "unknown[] | Record<string, unknown>",
		`{"type":"array","prefixItems":[{"type":"string"},{"type":"number"},{"type":"boolean"}]}`: "[string, number, boolean]",
		`{"type":"array","items":[{"type":"string"},{"type":"number"}]}`:                          "[string, number]", `{"type":"array"}`: "unknown[]",
		`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}`:    "(string | number)[]",
		`{"allOf":[{"anyOf":[{"type":"string"},{"type":"null"}]},{"type":"string"}]}`: "(string | null) & string",
		`{"type":"array","items":{"type":"string","nullable":true}}`:                  "(string | null)[]",
		`true`: "unknown", `false`: "never", ``: "unknown", `{"type":"odd"}`: "unknown",
		`{"properties":{"a b":{"type":"string","description":"x*/y\nz","format":"uuid"},"c":{"format":"date"},"d":{"description":"e"}}}`: "{\n    /**\n     * x*\\/y z\n     * @format uuid\n     */\n" +
			"    \"a b\"?: string;\n    /** @format date */\n    c?: unknown;\n    /** e */\n    d?: unknown;\n}",
		`{"properties":{"o":{"type":"object","properties":{"i":{"type":"integer"}}}}}`: "{\n    o?: {\n        i?: number;\n    };\n}",
		`{"properties":{"\u2028\"\\":true}}`:                                           "{\n    \"\\u2028\\\"\\\\\"?: unknown;\n}",
	} {
		if got, err := schemaType(json.RawMessage(schema)); err != nil || got != want {
			t.Errorf("%s:\n%s\n%v", schema, got, err)
		}
	}
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 30) + `{"type":"string"}` + strings.Repeat("}}", 30)
	if got, err := schemaType(json.RawMessage(deep)); err != nil || !strings.Contains(got, "unknown") || strings.Contains(got, "string") {
		t.Errorf("%s, %v", got, err)
	}
}

// A schema of a few hundred bytes whose type would have millions of members.
func TestSchemaTypeIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{"d19":{"type":"string"}`)
	for i := range 19 {
		next := strings.Replace(`{"$ref":"#/$defs/dN"}`, "N", json.Number(jsonInt(i+1)).String(), 1)
		b.WriteString(`,"d` + jsonInt(i) + `":{"type":"object","properties":{"a":` + next + `,"b":` + next + `,"c":` + next + `,"d":` + next + `}}`)
	}
	b.WriteString("}}")
	if got, err := schemaType(json.RawMessage(b.String())); err != nil || got != "unknown" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func jsonInt(i int) string {
	b, _ := json.Marshal(i)
	return string(b)
}

func TestDeclarations(t *testing.T) {
	if got := Declarations("codemode", nil); got != "declare const codemode: {}" {
		t.Errorf("%q", got)
	}
	got := Declarations("api", []Declaration{
		{Name: "get_item", Description: "Gets */ it", Input: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"The\nID"},"in":{"type":"object","properties":{"x":{"description":"Nested"}}}},"required":["id"]}`),
			Output: json.RawMessage(`{"type":"string"}`)},
		{Name: "getItem", Input: json.RawMessage(`{bad`)},
	})
	want := `type GetItemInput = {
    /** The ID */
    id: string;
    in?: {
        /** Nested */
        x?: unknown;
    };
}
type GetItemOutput = string
type GetItem2Input = unknown
type GetItem2Output = unknown

declare const api: {
	/**
	 * Gets *\/ it
	 * @param input.id - The ID
	 * @param input.in.x - Nested
	 */
	get_item: (input: GetItemInput) => Promise<GetItemOutput>;

	/**
	 * getItem
	 */
	getItem: (input: GetItem2Input) => Promise<GetItem2Output>;
}`
	if got != want {
		t.Errorf("%s", got)
	}
}

func FuzzSchemaType(f *testing.F) {
	f.Add(`{"type":"array","items":{"$ref":"#"}}`)
	f.Add(`{"enum":[{"a":[1,null]}],"nullable":true}`)
	f.Fuzz(func(t *testing.T, schema string) {
		got, err := schemaType(json.RawMessage(schema))
		if err == nil && got == "" {
			t.Errorf("%q has no type", schema)
		}
	})
}
