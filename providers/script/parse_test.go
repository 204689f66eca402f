package script_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestErrorsSayWhereAndWhat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "there is no step"},
		{"TOML", "[[step]]\ndo = [", "line 2: "},
		{"JSON", "{\n\"step\": [}", "line 2: "},
		{"two JSON values", `{"step": []} {}`, "more than one JSON value"},
		{"unknown key", "[[steps]]\n", `unknown key "steps"; did you mean "step"?`},
		{"unknown key of a step", "[[step]]\nname = \"a\"\nlatency = 1", `step 1 "a": unknown key "latency"`},
		{"unknown key of a part", "[[step]]\ndo = [{text = \"a\"}, {txt = \"b\"}]", `step 1: do 2: unknown key "txt"; did you mean "text"?`},
		{"unknown key of a condition", "[[step]]\nwhen = {outputs = \"a\"}", `step 1: when: unknown key "outputs"; did you mean "output"?`},
		{"wrong type", "[[step]]\nname = 3", "step 1: name: a number where text belongs"},
		{"pattern", "[[step]]\nwhen = {user = \"(\"}", "step 1: when: user: error parsing regexp"},
		{"range", "[[step]]\nwhen = {answers = \"many\"}", `when: answers: "many" is no number`},
		{"range of another form", "[[step]]\nwhen = {answers = \"5..2\"}", `answers: "5..2" is no number`},
		{"no group", "[[step]]\ncapture = [{pattern = \"a\"}]", "step 1: capture 1: /a/ has no named group"},
		{"group named like a built-in", "[[step]]\ncapture = [{pattern = \"(?P<user>a)\"}]", `"user" has the name of a built-in variable`},
		{"source", "[[step]]\ncapture = [{pattern = \"(?P<a>a)\", from = \"stdout\"}]", `not "stdout"`},
		{"call and source", "[[step]]\ncapture = [{pattern = \"(?P<a>a)\", from = \"conversation\", call = \"c\"}]", "call goes with from"},
		{"unknown variable", "[[step]]\nname = \"a\"\ncapture = [{pattern = \"(?P<line>a)\"}]\ndo = [{text = \"${lien}\"}]", `step 1 "a": no capture sets ${lien}; did you mean ${line}?`},
		{"unknown variable in arguments", "[[step]]\ndo = [{call = \"a\", args = {b = [{c = \"${x}\"}]}}]", "no capture sets ${x}"},
		{"open variable", "[[step]]\ndo = [{text = \"${x\"}]", "do 1: \"${x\" opens a variable that nothing closes"},
		{"name of a variable", "[[step]]\ndo = [{text = \"${a b}\"}]", `"a b" is no name of a variable`},
		{"filter", "[[step]]\ndo = [{text = \"${user|shout}\"}]", `there is no filter "shout"; there are last, trim`},
		{"pattern inside of not", "[[step]]\nwhen = {not = {output = \"[\"}}", "when: not: output: error parsing regexp"},
		{"two kinds of part", "[[step]]\ndo = [{text = \"a\", call = \"b\"}]", "exactly one of text, reasoning and call"},
		{"no kind of part", "[[step]]\ndo = [{chunk = 2}]", "exactly one of text, reasoning and call"},
		{"arguments without a call", "[[step]]\ndo = [{text = \"a\", args = {}}]", "need a call"},
		{"two inputs", "[[step]]\ndo = [{call = \"a\", args = {}, raw = \"\"}]", "one of args, raw and freeform"},
		{"arguments that are no object", `{"step": [{"do": [{"call": "a", "args": [1]}]}]}`, "args: args must be an object"},
		{"chunk word", "[[step]]\nchunk = \"sentence\"", `chunk: "sentence" is no number and none of`},
		{"chunk size", "[[step]]\nchunk = 0", "a size is at least 1"},
		{"finish", "[[step]]\nfinish = \"done\"", `unknown finish reason "done"; reasons are stop`},
		{"usage", "[[step]]\nusage = \"lots\"", `"lots" is neither`},
		{"usage key", "[[step]]\nusage = {inputs = 3}", `usage: unknown key "inputs"; did you mean "input"?`},
		{"error code", "[[step]]\nerror = {code = \"oops\"}", `unknown error code "oops"; codes are unknown, invalid-request`},
		{"break", "[[step]]\nbreak = {how = \"bang\"}", `break: unknown way "bang"; ways are incomplete`},
		{"break below zero", "[[step]]\nbreak = {after_bytes = -1}", "a count is at least 0"},
		{"malformed", "[[step]]\nmalformed = \"x\"", `malformed: unknown name "x"`},
		{"malformed without a block", "[[step]]\nmalformed = \"two-ends\"", "needs a step that answers something"},
		{"times", "[[step]]\ntimes = 0", "times is a number from 1"},
		{"attempts", "[[step]]\nattempts = {failures = -1}", "failures is a number from 0"},
		{"two steps of one name", "[[step]]\nname = \"a\"\n[[step]]\nname = \"a\"", `step 2 "a" has the name of step 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := script.Load("x.toml", []byte(tc.text))
			if err == nil {
				t.Fatal("no error")
			}
			if got := err.Error(); !strings.Contains(got, tc.want) || !strings.HasPrefix(got, "script x.toml: ") {
				t.Errorf("got  %s\nwant … %s …", got, tc.want)
			}
		})
	}
}

func TestScriptsThatAreTooLargeAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := script.Parse(make([]byte, script.MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "bytes are more than") {
		t.Errorf("err = %v", err)
	}
}

func TestTOMLAndJSONAreTheSameScript(t *testing.T) {
	t.Parallel()
	a, err := script.Load("x", []byte("\uFEFF# remark\n[[step]]\nwhen = {answers = 0}\ndo = [{call = \"a\", args = {n = 1, s = \"<&>\"}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := script.Load("x", []byte(` {"step": [{"do": [{"args": {"s": "<&>", "n": 1}, "call": "a"}], "when": {"answers": "0"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	// Key order inside args is kept as written and part of what is sent, so only the answers are compared.
	input := func(p *script.Player) string {
		a, err := p.Play(script.Input{Request: &llm.Request{}})
		if err != nil {
			t.Fatal(err)
		}
		return render(a.Actions)
	}
	if got, want := input(a), `step-start tool-input-start tool-input-delta({"n":1,"s":"<&>"}) tool-input-end tool-call step-finish finish`; got != want {
		t.Errorf("TOML: %s, want %s", got, want)
	}
	if got, want := input(b), `step-start tool-input-start tool-input-delta({"s":"<&>","n":1}) tool-input-end tool-call step-finish finish`; got != want {
		t.Errorf("JSON: %s, want %s", got, want)
	}
}

// FuzzLoad: whatever the text, loading ends with a player or an error, and a player answers without a panic.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("[[step]]\ndo = [{text = \"${user|last:-x}\", chunk = 1}]\nbreak = {after_bytes = 3, how = \"hang\"}"))
	f.Add([]byte("[[step]]\nwhen = {not = {absent = \"U\"}, answers = \"<3\"}\nexpect = [{user = \".\"}]\nerror = {code = \"rate-limit\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := script.Load("fuzz", text)
		if err != nil {
			return
		}
		req := &llm.Request{Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: "hello"}}},
			{Role: llm.RoleAssistant, Parts: llm.Parts{&llm.ToolCall{ID: "c1", Name: "exec_command", Input: "{}"}}},
			{Role: llm.RoleTool, Parts: llm.Parts{&llm.ToolResult{ID: "c1", Content: llm.Parts{&llm.Text{Text: "1: out"}}}}},
		}}
		var pos script.Position
		for range 3 {
			a, err := p.Play(script.Input{Request: req, Known: pos})
			if err != nil {
				return
			}
			pos = a.Position
		}
	})
}
