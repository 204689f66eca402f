package review

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

const found = `{"findings":[
	{"title":"[P1] Lost update","body":"When two\nwrite at once.","confidence_score":0.8,"priority":1,
	 "code_location":{"absolute_file_path":"/w/a.go","line_range":{"start":10,"end":12}}},
	{"title":"No place","body":"","confidence_score":0.2}],
	"overall_correctness":"patch is incorrect","overall_explanation":"It loses data.","overall_confidence_score":0.9}`

func one() *int { n := 1; return &n }

func TestParse(t *testing.T) {
	whole := event.Review{
		Findings: []event.Finding{
			{Title: "[P1] Lost update", Body: "When two\nwrite at once.", Priority: one(), Confidence: 0.8, Path: "/w/a.go", FirstLine: 10, LastLine: 12},
			{Title: "No place", Confidence: 0.2},
		},
		Verdict: "patch is incorrect", Explanation: "It loses data.", Confidence: 0.9,
	}
	none := event.Review{Findings: []event.Finding{}}
	explained := func(s string) event.Review { return event.Review{Findings: []event.Finding{}, Explanation: s} }
	for name, tc := range map[string]struct {
		text string
		want event.Review
	}{
		"JSON":                            {found, whole},
		"noise around it":                 {"noise " + found + " tail", whole},
		"in a fence":                      {"```json\n" + found + "\n```\n", whole},
		"no findings":                     {`{"findings":[]}`, none},
		"no JSON":                         {" All is well. ", explained("All is well.")},
		"braces that are no JSON":         {"use {x} or {y}", explained("use {x} or {y}")},
		"JSON of something else":          {`{"a":1}`, explained(`{"a":1}`)},
		"findings that are none":          {`{"findings":"none"}`, explained(`{"findings":"none"}`)},
		"two objects":                     {found + found, explained(found + found)},
		"JSON that was cut off":           {found[:len(found)-3], explained(found[:len(found)-3])},
		"null":                            {"null", explained("null")},
		"lines that make no sense":        {`{"findings":[{"title":"t","code_location":{"absolute_file_path":"/a","line_range":{"start":-4,"end":-9}}}]}`, event.Review{Findings: []event.Finding{{Title: "t", Path: "/a"}}}},
		"an end that is before the start": {`{"findings":[{"title":"t","code_location":{"absolute_file_path":"/a","line_range":{"start":7,"end":2}}}]}`, event.Review{Findings: []event.Finding{{Title: "t", Path: "/a", FirstLine: 7, LastLine: 7}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Parse(tc.text); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{found, "It loses data.\n\nVerdict: patch is incorrect\n2 findings:\n\n- [P1] Lost update\n  /w/a.go:10-12\n  When two\n  write at once.\n\n- No place"},
		{`{"findings":[{"title":"t","priority":0,"code_location":{"absolute_file_path":"/a","line_range":{"start":3,"end":3}}}]}`, "One finding:\n\n- t (P0)\n  /a:3"},
		{`{"findings":[],"overall_correctness":"patch is correct"}`, "Verdict: patch is correct\nNo findings."},
		{`{"findings":[]}`, "No findings."},
		{"plain words", "plain words"},
	} {
		if got := Render(Parse(tc.text)); got != tc.want {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", tc.text, got, tc.want)
		}
	}
}

// Whatever a model answers is read without a panic, and what it said is not lost.
func FuzzParse(f *testing.F) {
	for _, s := range []string{found, "noise " + found, "{}", "{\"findings\":[{}]}", "}{", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := Parse(s)
		if r.Findings == nil {
			t.Error("findings are nil: they would be null for programs")
		}
		if len(r.Findings) == 0 && r.Verdict == "" && r.Explanation == "" && strings.TrimSpace(s) != "" && !strings.Contains(s, "findings") {
			t.Errorf("%q is lost", s)
		}
		Render(r)
	})
}
