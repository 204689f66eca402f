package script

import (
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
	yes, no := true, false
	for _, tc := range []struct {
		name string
		cond Condition
		want string // part of what is said when it does not hold; "": it holds
	}{
		{"nothing", Condition{}, ""},
		{"user", Condition{User: `(?s)^first.question$`}, ""},
		{"user is not a note of the host", Condition{User: `environment`}, "- user: wanted to match /environment/\n+ user: first⏎question"},
		{"assistant", Condition{Assistant: `^$`}, ""},
		{"output is what came since the last answer", Condition{Output: `12 rows\nexit 1`}, ""},
		{"output is not older", Condition{Output: `a.txt`}, "- output: wanted to match /a.txt/"},
		{"output error", Condition{OutputError: &yes}, ""},
		{"no output error", Condition{OutputError: &no}, "- output_error: wanted to be false"},
		{"output of an id", Condition{OutputOf: map[string]string{"c1": `b\.txt`}}, ""},
		{"output of a tool is its latest", Condition{OutputOf: map[string]string{"exec_command": `exit 1`}}, ""},
		{"output of a tool is not its first", Condition{OutputOf: map[string]string{"exec_command": `a.txt`}}, "+ output_of exec_command: exit 1"},
		{"output of nobody", Condition{OutputOf: map[string]string{"c9": ``}}, "no result of that call or tool"},
		{"no output of", Condition{NoOutputOf: []string{"c9", "apply_patch"}}, ""},
		{"an output after all", Condition{NoOutputOf: []string{"query"}}, "+ no_output_of query: 12 rows"},
		{"system", Condition{System: `^Be brief\.$`}, ""},
		{"conversation", Condition{Conversation: `(?m)^output c3 \(error\): exit 1$`}, ""},
		{"absent", Condition{Absent: `secret`}, ""},
		{"present", Condition{Absent: `r.ws`}, "- absent: wanted nothing to match /r.ws/\n+ absent: rows"},
		{"shape", Condition{Shape: `D U R A C:c1 O:c1 C:c2 C:c3 O:c2 O:c3 X`}, ""},
		{"shape is all of it", Condition{Shape: `D U`}, "+ shape: D U R A C:c1"},
		{"model", Condition{Model: `large$`, Effort: `^high$`}, ""},
		{"tools", Condition{Tools: []string{"exec_command", "db.query", "query"}, NoTools: []string{"apply_patch"}, ToolCount: "2"}, ""},
		{"a missing tool", Condition{Tools: []string{"apply_patch"}}, "- tools: wanted to offer apply_patch\n+ tools: exec_command, db.query"},
		{"an offered tool", Condition{NoTools: []string{"db.query"}}, "not to offer db.query"},
		{"counts", Condition{Answers: "2", SinceUser: "1..2", Messages: ">=8", Request: "<4", ToolCount: "..2"}, ""},
		{"answers", Condition{Answers: ">2"}, "- answers: wanted to be >2\n+ answers: 2"},
		{"request", Condition{Request: "<=2"}, "+ request: 3"},
		{"vars", Condition{Vars: map[string]string{"line": `^\d+$`}}, ""},
		{"other value", Condition{Vars: map[string]string{"line": `^x`}}, "+ vars line: 12"},
		{"not set", Condition{Vars: map[string]string{"x": ``}}, "+ vars x: not set"},
		{"any", Condition{Any: []Condition{{User: "no"}, {User: "first"}}}, ""},
		{"none of any", Condition{Any: []Condition{{User: "no"}, {Model: "small"}}}, "any of:\n  - user"},
		{"not", Condition{Not: &Condition{User: "no"}}, ""},
		{"not not", Condition{Not: &Condition{User: "first"}}, "wanted the opposite"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checks, err := tc.cond.compile()
			if err != nil {
				t.Fatal(err)
			}
			m := moment{conv: look(sample()), vars: map[string]string{"line": "12"}, request: 3}
			got := strings.Join(run(checks, m), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestSeesShowsADiff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		sees []string
		want string
	}{
		{"all", []string{"system: a note", "user: first⏎question", "reasoning: hm", "assistant: let me see", `call c1 exec_command: {"cmd":"ls"}`, "output c1: a.txt*", "call c2 db.query: {}", "call c3 *", "output c2: 12 rows [image/png, 3 bytes]", "output c3 (error): exit 1", "user: <environment_context>*"}, ""},
		{"gaps", []string{"...", "call c1 *", "...", "output c3*", "..."}, ""},
		{"only a gap", []string{"..."}, ""},
		{"order matters", []string{"...", "output c3*", "output c2*", "..."}, "  output c3"},
		{"missing and too much", []string{"system: a note", "user: second question", "..."}, "- user: second question"},
		{"nothing wanted after", []string{"system: a note", "...", "output c3*"}, "+ user: <environment_context>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checks, err := (&Expect{Sees: tc.sees}).compile()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(run(checks, moment{conv: look(sample())}), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got\n%s\nwant %q", got, tc.want)
			}
		})
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
		"${a|first}/${a|last}":   "it's/here",
		"${a|quote}":             `' it'\''s` + "\n" + `here '`,
		"${a|json}":              `" it's\nhere "`,
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
		"0": "0", "3": "3", "2..4": "2 3 4", "..1": "0 1", "3..": "3 4 5", ">=4": "4 5", "<=1": "0 1", ">4": "5", "<1": "0", " 2 .. 3 ": "2 3",
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
	for _, text := range []string{"", "..", "x", "-1", "3..2", "<0", ">=", "1.5", ">", "1..2..3"} {
		if lo, hi, err := Range(text).bounds(); err == nil {
			t.Errorf("%q is accepted as %d..%d", text, lo, hi)
		}
	}
}
