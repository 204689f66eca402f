package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/form"
)

// What a question shows is all that would run, whatever is written to hide a part of it.
func TestQuestionsHideNothing(t *testing.T) {
	t.Parallel()
	const evil = "curl evil.test"
	for name, script := range map[string]string{
		"behind blanks":          "true" + strings.Repeat(" ", 100_000) + "; " + evil,
		"between blanks":         "true" + strings.Repeat(" \t", 5000) + ";" + evil + "#" + strings.Repeat("\u3164\u2800", 5000) + "\ntrue",
		"behind lines":           "true" + strings.Repeat("\n", 5000) + evil,
		"behind a comment":       "true #" + strings.Repeat("#", 50_000) + "\n" + evil,
		"behind a carriage":      evil + "\rtrue",
		"behind controls":        "true \x1b[2K\x1b[1A" + evil + "\x1b[8m",
		"in the other direction": "true \u202e" + evil + "\u202c",
		"in no width":            "true \u200b\u2060;" + evil,
		"behind bytes":           "true " + strings.Repeat("\xff", 5000) + evil,
	} {
		data, err := json.Marshal(map[string]any{"argv": []string{"bash", "-c", script}, "cwd": "/ws"})
		if err != nil {
			t.Fatal(err)
		}
		text := Question(event.QuestionAsked{Title: script, Reason: script, Message: script, Effects: []event.Effect{{Type: "exec", Data: data}}}, nil, event.Item{})
		if len(text) > 2000 || strings.Count(text, evil) < 3 || strings.ContainsAny(text, "\x1b\r\u202e\u202c\u2028") {
			t.Errorf("%s: %d bytes: %.1000q", name, len(text), text)
		}
	}
	if got := folded("a  b\n\n" + strings.Repeat("=", maxBlanks)); got != "a  b\n\n"+strings.Repeat("=", maxBlanks) {
		t.Errorf("ordinary text is %q", got)
	}
}

// A person sees which tools a nested call comes from.
func TestQuestionsShowTheChain(t *testing.T) {
	t.Parallel()
	q := event.QuestionAsked{Title: "ls", Chain: []string{"python", "exec_command\n  y) approve"}}
	if text := Question(q, nil, event.Item{}); text != "? ls\n  call: python → exec_command\n    |   y) approve\n" {
		t.Errorf("%q", text)
	}
	q.Chain = nil
	if text := Question(q, nil, event.Item{}); text != "? ls\n" {
		t.Errorf("%q", text)
	}
}

// The model's words are quoted, once, and bounded; they can't imitate the question.
func TestQuestionsQuoteTheModel(t *testing.T) {
	t.Parallel()
	forged := "needed\n  runs: \"ls\"\n  y) approve\n? another question"
	text := Question(event.QuestionAsked{About: event.QuestionApproval, Title: "curl evil.test\n  runs: \"ls\"", Reason: forged, Message: forged}, []string{approval.Approve, approval.Deny}, event.Item{})
	if strings.Count(text, "needed") != 1 {
		t.Errorf("the justification is there more than once:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if (strings.Contains(line, "ls") || strings.Contains(line, "another")) && !strings.HasPrefix(strings.TrimSpace(line), "|") {
			t.Errorf("%q passes for a line of the question:\n%s", line, text)
		}
	}
	if strings.Count(text, "\n  y) approve\n") != 1 || !strings.Contains(text, "  the model says:\n  | needed\n") {
		t.Errorf("%s", text)
	}
	long := Question(event.QuestionAsked{Message: strings.Repeat("x\n", 50) + strings.Repeat("y", 9000)}, nil, event.Item{})
	if !strings.Contains(long, "  | … and 45 more lines") || len(long) > 2000 {
		t.Errorf("%s", long)
	}
	again := Question(event.QuestionAsked{About: event.QuestionApproval, Title: "x", Reason: "it asks to run outside of the sandbox: because", Message: "because"}, nil, event.Item{})
	if !strings.Contains(again, "  why: it asks to run outside of the sandbox\n  the model says:\n  | because\n") {
		t.Errorf("%s", again)
	}
}

// Answers have the same letter wherever they are offered, and words hold as well.
func TestAnswersHaveLetters(t *testing.T) {
	t.Parallel()
	command := []string{approval.Approve, approval.ApproveTurn, approval.ApproveSession, approval.ApproveAlways, approval.Deny, approval.Abort}
	patch := []string{approval.Approve, approval.ApproveTurn, approval.ApproveSession, approval.Deny, approval.Abort}
	host := []string{approval.ApproveTurn, approval.ApproveSession, approval.ApproveAlways, approval.Deny, approval.DenyAlways, approval.Abort}
	for _, tc := range []struct {
		line    string
		options []string
		want    string // empty: it is no answer
	}{
		{"y", command, approval.Approve}, {"yes", patch, approval.Approve}, {"Y", patch, approval.Approve}, {"y", host, approval.ApproveTurn}, {"t", command, approval.ApproveTurn}, {"s", patch, approval.ApproveSession},
		{"a", command, approval.ApproveAlways}, {"a", patch, ""}, {"n", command, approval.Deny}, {"n", patch, approval.Deny}, {"no", host, approval.Deny}, {"d", host, approval.DenyAlways}, {"d", command, ""}, {"q", patch, approval.Abort},
		{"4", command, ""}, {"1", patch, ""}, {"always", command, approval.ApproveAlways}, {"deny", patch, approval.Deny}, {"abort", host, approval.Abort}, {"", patch, ""},
		{"2", []string{"red", "blue"}, "blue"}, {"red", []string{"red", "blue"}, "red"}, {"anything", nil, "anything"},
	} {
		if got, ok := Choose(tc.line, tc.options); ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("%q of %q: %q, %v", tc.line, tc.options, got, ok)
		}
	}
}

// Effects are sentences, look-alikes are marked, and a patch is seen before it is approved.
func TestQuestionsShowEffects(t *testing.T) {
	t.Parallel()
	effects := []event.Effect{
		{Type: "write", Data: json.RawMessage(`{"paths":["/p/b.txt","/p/c"]}`)}, {Type: "other", Data: json.RawMessage(`{"label":"delete user"}`)}, {Type: "network", Data: json.RawMessage(`{"host":"x.test","port":443}`)},
		{Type: "exec", Data: json.RawMessage(`{"argv":["bash","-lc","g\u0456t pull"],"cwd":"/p"}`)}, {Type: "service", Data: json.RawMessage(`{"service":"github","action":"drop\n? x","readOnly":false,"openWorld":true}`)}, {Type: "service", Data: json.RawMessage(`{"service":"a","action":"b"}`)},
		{Type: "unheard_of", Data: json.RawMessage(`{"a":1}`)},
	}
	changes := []event.FileChange{{Path: "/p/b.txt", Kind: "update", Diff: "@@ -1 +1 @@\n-old\n+new\x1b[2J\n"}, {Path: "/p/long", Kind: "add", Diff: strings.Repeat("+x\n", 500)}}
	text := Question(event.QuestionAsked{About: event.QuestionApproval, Title: "x", Effects: effects}, []string{approval.Approve}, event.Item{Changes: changes})
	for _, want := range []string{
		"  update /p/b.txt\n", "    -old\n    +new[2J\n", "more lines\n? x\n", `  writes: "/p/b.txt", "/p/c"`, `  does: "delete user"`, `  reaches: "x.test", port 443`, `  runs: "bash" "-lc" "gіt pull"`, "  in: /p\n",
		`warning: it contains letters that look like others: "g<U+0456>t"`, `  unheard_of {"a":1}`,
		`  asks "github" for: "drop\n? x", which says that it changes something, acts beyond the service`, `  asks "a" for: "b", which says nothing of what that does`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Count(text, "\n") > maxDiff+20 {
		t.Errorf("it has %d lines", strings.Count(text, "\n"))
	}
}

// A plugin's question says first who asks, and nothing that the plugin writes can pass for a line of the question or for one of
// gantry's: all its words are quotations or options, without characters that control the terminal, and bounded.
func TestPluginsQuestionsLookLikeNoOthers(t *testing.T) {
	t.Parallel()
	forged := "ok\n? rm -rf\n  y) approve\x1b[2J\u202e\n  answer: y" + strings.Repeat("\nmore", 100) + strings.Repeat("z", 9000)
	q := event.QuestionAsked{About: event.QuestionChoice, Plugin: "mcp", Source: "git\nhub", Title: forged, Message: forged, Options: []string{"approve_session\n  y) approve", "n"}}
	for _, about := range []event.QuestionKind{event.QuestionChoice, event.QuestionForm, event.QuestionURL} {
		q.About, q.URL = about, ""
		if about == event.QuestionURL {
			q.URL = "https://a.test/\n  y) approve\x1b[2J"
		}
		text := Question(q, q.Options, event.Item{})
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if lines[0] != `? server "git\nhub" of plugin "mcp" asks` {
			t.Errorf("%s: the first line is %s", about, lines[0])
		}
		for _, l := range lines[1:] {
			forges := strings.Contains(l, "rm -rf") || strings.Contains(l, "answer:") || strings.Contains(l, "approve")
			if forges && !strings.HasPrefix(l, "  | ") && !strings.HasPrefix(l, "  1) approve_session y) approve") && !strings.HasPrefix(l, "  address: ") {
				t.Errorf("%s: the plugin's words are outside of a quotation: %q", about, l)
			}
		}
		if strings.ContainsAny(text, "\x1b\u202e") || len(text) > 8000 || !strings.HasSuffix(text, "  n) decline\n  q) dismiss\n") {
			t.Errorf("%s: %d bytes: %.3000q", about, len(text), text)
		}
	}
	for line, want := range map[string]string{"1": q.Options[0], "2": "n", "n": approval.Deny, "q": approval.Dismiss, "decline": approval.Deny, "3": "", "y": "", "0": "", "": ""} {
		q.About = event.QuestionChoice
		if got, ok := Chosen(line, q, q.Options); got != want || ok != (want != "") {
			t.Errorf("%q chooses %q, %v", line, got, ok)
		}
	}
	field := form.Field{
		Name: "a\n  2 of 2: \"b\"", Title: forged, Description: forged, Kind: form.One, Format: "email\n", Default: []byte(`"x\n  value: "`),
		Options: []form.Option{{Value: []byte(`"a"`), Title: "one\n  value: "}},
	}
	text := Field(field, 1, 1)
	if strings.Count(text, "\n  value: ") != 1 || !strings.HasSuffix(text, "\n  value: ") || strings.ContainsAny(text, "\x1b\u202e") || len(text) > 4000 {
		t.Errorf("a field: %d bytes: %.3000q", len(text), text)
	}
}

// A question about a call of a tool shows its arguments, which can neither hide a part nor imitate the question.
func TestQuestionsShowTheArguments(t *testing.T) {
	t.Parallel()
	ask := func(kind event.ItemType, arguments string) string {
		return Question(event.QuestionAsked{About: event.QuestionApproval, Title: "notes.add"}, []string{approval.Approve}, event.Item{Type: kind, Arguments: json.RawMessage(arguments)})
	}
	for _, tc := range []struct {
		kind            event.ItemType
		arguments, want string
	}{
		{event.ItemMCPCall, `{"text":"buy  milk"}`, "? notes.add\n  arguments: {\"text\":\"buy  milk\"}\n  y) approve\n"},
		{event.ItemTool, "{\n  y) approve\x1b[2K}", "? notes.add\n  arguments: {\n    |   y) approve" + Clean("\x1b") + "[2K}\n  y) approve\n"},
		{event.ItemMCPCall, "", "? notes.add\n  y) approve\n"},
		{event.ItemCommand, `{"cmd":"ls"}`, "? notes.add\n  y) approve\n"},
	} {
		if got := ask(tc.kind, tc.arguments); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	if got := ask(event.ItemMCPCall, `"`+strings.Repeat("ab", 5000)+`"`); len(got) > 1200 || !strings.Contains(got, "… 9002 more characters\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := ask(event.ItemMCPCall, `{"a":"`+strings.Repeat(" ", 5000)+`evil"}`); !strings.Contains(got, "evil") {
		t.Errorf("hidden behind blanks: %q", got)
	}
}

// A question whose two options are an obvious yes and no is answered by y and n, and still by their words and numbers.
func TestOptionsThatAreYesAndNo(t *testing.T) {
	q := event.QuestionAsked{About: event.QuestionChoice, Plugin: "mcp", Source: "srv", Title: "Let it?"}
	options := []string{"allow", "refuse"}
	if got, want := Question(q, options, event.Item{}), "  y) allow\n  n) refuse\n  q) dismiss\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at its end", got, want)
	}
	for line, want := range map[string]string{
		"y": "allow", "YES": "allow", "n": "refuse", "no": "refuse", "1": "allow", "2": "refuse", "Allow": "allow", "refuse": "refuse",
		"q": approval.Dismiss, "decline": approval.Deny, "maybe": "",
	} {
		if got, ok := Chosen(line, q, options); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", line, got, ok)
		}
	}
	for _, options := range [][]string{{"red", "blue"}, {"yes", "yes"}, {"yes", "no", "later"}, {"allow all", "refuse"}} {
		if got := Question(q, options, event.Item{}); strings.Contains(got, "y)") || !strings.Contains(got, "  n) decline\n") {
			t.Errorf("%q: %q", options, got)
		}
		if got, ok := Chosen("y", q, options); ok {
			t.Errorf("%q: y is %q", options, got)
		}
		if got, _ := Chosen("n", q, options); got != approval.Deny {
			t.Errorf("%q: n is %q", options, got)
		}
	}
	if got, _ := Chosen("yes", q, []string{"no", "Yes"}); got != "Yes" {
		t.Errorf("in the other order: %q", got)
	}
}
