package codemode

import (
	"strings"
	"testing"
	"time"
)

func TestParseSource(t *testing.T) {
	ms := func(n int64) *time.Duration { d := time.Duration(n) * time.Millisecond; return &d }
	tokens := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		name, text string
		want       source
		err        string // beginning
	}{
		{"plain", "text(1)", source{code: "text(1)"}, ""},
		{"blank", " \n\t", source{}, "exec expects raw JavaScript source text (non-empty)."},
		{"both options", "// @exec: {\"yield_time_ms\": 10, \"max_output_tokens\": 500}\ntext(1)", source{code: "\ntext(1)", yield: ms(10), most: tokens(500)}, ""},
		{"carriage return, indent", " \t// @exec:{\"yield_time_ms\":0}\r\ntext(1)\r\n", source{code: "\ntext(1)\r\n", yield: ms(0)}, ""},
		{"none", "// @exec: {}\n1", source{code: "\n1"}, ""},
		{"null", "// @exec: {\"yield_time_ms\": null}\n1", source{code: "\n1"}, ""},
		{"as much as is safe", "// @exec: {\"max_output_tokens\": 9007199254740991}\n1", source{code: "\n1", most: tokens(9007199254740991)}, ""},
		{"on the second line it is a comment", "\n// @exec: {\"x\": 1}\n1", source{code: "\n// @exec: {\"x\": 1}\n1"}, ""},
		{"another comment", "// @execute: x\n1", source{code: "// @execute: x\n1"}, ""},
		{"no source", "// @exec: {}", source{}, "exec pragma must be followed by JavaScript source on subsequent lines"},
		{"blank source", "// @exec: {}\n \n", source{}, "exec pragma must be followed by JavaScript source on subsequent lines"},
		{"empty", "// @exec:\n1", source{}, "exec pragma must be a JSON object with supported fields `yield_time_ms` and `max_output_tokens`"},
		{"no object", "// @exec: [1]\n1", source{}, "exec pragma must be a JSON object with supported fields"},
		{"no JSON", "// @exec: {yield: 1}\n1", source{}, "exec pragma must be valid JSON with supported fields `yield_time_ms` and `max_output_tokens`: "},
		{"unknown", "// @exec: {\"timeout\": 1}\n1", source{}, "exec pragma only supports `yield_time_ms` and `max_output_tokens`; got `timeout`"},
		{"negative", "// @exec: {\"yield_time_ms\": -1}\n1", source{}, "exec pragma field `yield_time_ms` must be a non-negative safe integer"},
		{"too large", "// @exec: {\"max_output_tokens\": 9007199254740992}\n1", source{}, "exec pragma field `max_output_tokens` must be a non-negative safe integer"},
		{"a fraction", "// @exec: {\"yield_time_ms\": 1.5}\n1", source{}, "exec pragma fields `yield_time_ms` and `max_output_tokens` must be non-negative safe integers: "},
		{"a string", "// @exec: {\"yield_time_ms\": \"1\"}\n1", source{}, "exec pragma fields `yield_time_ms` and `max_output_tokens` must be non-negative safe integers: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseSource(tc.text)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Fatalf("error %v, want %s…", err, tc.err)
				}
				return
			}
			if err != nil || got.code != tc.want.code || !same(got.yield, tc.want.yield) || !same(got.most, tc.want.most) {
				t.Fatalf("%+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func FuzzParseSource(f *testing.F) {
	f.Add("text(1)")
	f.Add("// @exec: {\"yield_time_ms\": 10}\ntext(1)")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSource(text)
		if err != nil {
			return
		}
		if strings.TrimSpace(s.code) == "" || strings.Count(s.code, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q became %q", text, s.code)
		}
	})
}
