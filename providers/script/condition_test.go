package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func words(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: llm.Parts{&llm.Text{Text: text}}}
}

func sample() *llm.Request {
	return &llm.Request{
		Model: "scripted-large", ReasoningEffort: "high", System: []string{"Be brief."},
		Tools: []llm.Tool{{Name: "exec_command"}, {Name: "query", Namespace: "db"}},
		Messages: []llm.Message{
			words(llm.RoleSystem, "a note"),
			words(llm.RoleUser, "first\nquestion"),
			{Role: llm.RoleAssistant, Parts: llm.Parts{&llm.Reasoning{Text: "hm"}, &llm.Text{Text: "let me see"}, &llm.ToolCall{ID: "c1", Name: "exec_command", Input: `{"cmd":"ls"}`}}},
			{Role: llm.RoleTool, Parts: llm.Parts{&llm.ToolResult{ID: "c1", Content: llm.Parts{&llm.Text{Text: "a.txt\nb.txt"}}}}},
			{Role: llm.RoleAssistant, Parts: llm.Parts{&llm.ToolCall{ID: "c2", Name: "query", Namespace: "db", Input: "{}"}, &llm.ToolCall{ID: "c3", Name: "exec_command", Input: "{}"}}},
			{Role: llm.RoleTool, Parts: llm.Parts{&llm.ToolResult{ID: "c2", Name: "query", Content: llm.Parts{&llm.Text{Text: "12 rows"}, &llm.Media{MediaType: "image/png", Data: []byte("123")}}}}},
			{Role: llm.RoleTool, Parts: llm.Parts{&llm.ToolResult{ID: "c3", Content: llm.Parts{&llm.Text{Text: "exit 1"}}, IsError: true}}},
			words(llm.RoleUser, "<environment_context>x</environment_context>"),
		},
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cond Condition
		want string // part of what is said when it does not hold; "": it holds
	}{
		{"nothing", Condition{}, ""},
		{"user", Condition{User: `(?s)^first.question$`}, ""},
		{"user is not a note of the host", Condition{User: `environment`}, "- user: wanted to match /environment/\n+ user: first⏎question"},
		{"output is what came since the last answer", Condition{Output: `12 rows\nexit 1`}, ""},
		{"output is not older", Condition{Output: `a.txt`}, "- output: wanted to match /a.txt/"},
		{"no output of", Condition{NoOutputOf: []string{"c9", "apply_patch"}}, ""},
		{"an output after all", Condition{NoOutputOf: []string{"query"}}, "+ no_output_of query: 12 rows"},
		{"system", Condition{System: `^Be brief\.$`}, ""},
		{"absent", Condition{Absent: `secret`}, ""},
		{"present", Condition{Absent: `r.ws`}, "- absent: wanted nothing to match /r.ws/\n+ absent: rows"},
		{"tools", Condition{Tools: []string{"exec_command", "db.query", "query"}, NoTools: []string{"apply_patch"}}, ""},
		{"a missing tool", Condition{Tools: []string{"apply_patch"}}, "- tools: wanted to offer apply_patch\n+ tools: exec_command, db.query"},
		{"an offered tool", Condition{NoTools: []string{"db.query"}}, "not to offer db.query"},
		{"counts", Condition{Answers: "2", SinceUser: ">=1"}, ""},
		{"answers", Condition{Answers: "<2"}, "- answers: wanted to be <2\n+ answers: 2"},
		{"not", Condition{Not: &Condition{User: "no"}}, ""},
		{"not not", Condition{Not: &Condition{User: "first"}}, "wanted the opposite"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checks, err := tc.cond.compile()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(run(checks, look(sample())), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestLinesShowWhatTheModelSees(t *testing.T) {
	t.Parallel()
	want := []string{
		"base: Be brief.", "system: a note", "user: first⏎question", "reasoning: hm", "assistant: let me see",
		`call c1 exec_command: {"cmd":"ls"}`, "output c1: a.txt⏎b.txt", "call c2 db.query: {}", "call c3 exec_command: {}",
		"output c2: 12 rows [image/png, 3 bytes]", "output c3 (error): exit 1", "user: <environment_context>x</environment_context>",
	}
	if got := Lines(sample()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := Shape(sample()), "D U R A C:c1 O:c1 C:c2 C:c3 O:c2 O:c3 X"; got != want {
		t.Errorf("shape %s, want %s", got, want)
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"a": " it's\nhere ", "empty": ""}
	for text, want := range map[string]string{
		"":                       "",
		"plain $a {a}":           "plain $a {a}",
		"${a}":                   " it's\nhere ",
		"<${a|trim}>":            "<it's\nhere>",
		"${a|last}":              "here",
		"$${a} $$ $":             "${a} $$ $",
		"${b:-else}":             "else",
		"${b|trim:- else }":      "else",
		"${b:-}":                 "",
		"${empty:-not this}":     "",
		"${a|trim}${b:-x}$${y}z": "it's\nherex${y}z",
	} {
		tpl, err := parseTemplate(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := tpl.fill(vars); err != nil || got != want {
			t.Errorf("%q = %q (%v), want %q", text, got, err, want)
		}
	}
	tpl, err := parseTemplate("${later}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tpl.fill(vars); err == nil || !strings.Contains(err.Error(), "${later} is not set yet") {
		t.Errorf("unset: %v", err)
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0", "3": "3", ">=4": "4 5", "<1": "0",
	} {
		lo, hi, err := Range(text).bounds()
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []string
		for n := range 6 {
			if lo <= n && n <= hi {
				got = append(got, string(rune('0'+n)))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q holds %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "x", "-1", ">=", "1.5", ">", ">2", "<=2", "1..2", "<>1"} {
		if lo, hi, err := Range(text).bounds(); err == nil {
			t.Errorf("%q is accepted as %d..%d", text, lo, hi)
		}
	}
}
