package redact

import "testing"

// Secrets are removed from the texts of a JSON value, however they are spelled in it; what has none keeps its form.
func TestJSON(t *testing.T) {
	r := &Redactor{}
	r.Add("the-secret-value", `quote"and\slash`, "987654321012")
	for _, tc := range [][2]string{
		{`{"b":1, "a":[true,null,12345678901234567890,"x"]}`, `{"b":1, "a":[true,null,12345678901234567890,"x"]}`},
		{`"the-secret-value"`, `"` + Placeholder + `"`},
		{`{"b":{"c":["say the-secret-value <b>"]},"a":12345678901234567}`, `{"a":12345678901234567,"b":{"c":["say ` + Placeholder + ` <b>"]}}`},
		{`["quote\"and\\slash","\u0074he-secret-value"]`, `["` + Placeholder + `","` + Placeholder + `"]`},
		{`{"the-secret-value":"x","n":987654321012}`, `{"` + Placeholder + `":"x","n":"` + Placeholder + `"}`},
		{`{"the-secret-value"`, `{"` + Placeholder + `"`}, {`1 "the-secret-value"`, `1 "` + Placeholder + `"`}, {``, ``},
		{`{"a":"quote\"and\\slash","a":"x"}`, `{"a":"x"}`}, {`[{"a":{"b":1},"b":{"a":2}}, {"a":["a","a"]}]`, `[{"a":{"b":1},"b":{"a":2}}, {"a":["a","a"]}]`},
	} {
		if got := string(r.JSON([]byte(tc[0]))); got != tc[1] {
			t.Errorf("%s: %s, want %s", tc[0], got, tc[1])
		}
	}
	if got := string((*Redactor)(nil).JSON([]byte(`"the-secret-value"`))); got != `"the-secret-value"` {
		t.Errorf("without redaction: %s", got)
	}
}
