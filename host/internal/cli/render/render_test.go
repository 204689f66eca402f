package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func code(n int32) *int32 { return &n }

// story is a turn with one of everything that is shown.
func story() []event.Event {
	cmd := event.Item{ID: "i1", Type: event.ItemCommand, Status: event.StatusInProgress, Command: "ls\necho x", Cwd: "/w"}
	cmdDone := cmd
	cmdDone.Status, cmdDone.ExitCode, cmdDone.Output = event.StatusFailed, code(2), "a\nb\n"
	patch := event.Item{ID: "i2", Type: event.ItemFileChange, Status: event.StatusInProgress, Changes: []event.FileChange{{Path: "/w/f", Kind: "update", Diff: "@@ -1 +1 @@\n-a\n+b\n"}}}
	patchDone := patch
	patchDone.Status = event.StatusCompleted
	tool := event.Item{ID: "i3", Type: event.ItemTool, Status: event.StatusInProgress, Tool: "forecast", Plugin: "weather", Arguments: []byte(`{"city":"<Rome>"}`)}
	toolDone := tool
	toolDone.Status, toolDone.Output = event.StatusDeclined, "rejected by user"
	cell := event.Item{
		ID: "i5", Type: event.ItemCode, Status: event.StatusInProgress, Language: "python", Session: "k",
		Command: "import os\n" + strings.Repeat("print(1)\n", 13),
	}
	cellDone := cell
	cellDone.Status, cellDone.Output = event.StatusCompleted, "1\n"
	msg := event.Item{ID: "i4", Type: event.ItemAgentMessage, Status: event.StatusInProgress}
	msgDone := msg
	msgDone.Text, msgDone.Status = "all \x1b[31mdone", event.StatusCompleted
	bodies := []event.Body{
		event.TurnStarted{Cwd: "/w", Provider: "p", ModelName: "m", Approval: "never", Sandbox: "full-access"},
		event.ItemCompleted{Item: event.Item{ID: "u", Type: event.ItemUserMessage, Text: "do it"}},
		event.ItemStarted{Item: cmd}, event.ItemDelta{Item: "i1", Delta: event.DeltaOutput, Text: "a\nb"},
		event.ItemDelta{Item: "i1", Delta: event.DeltaOutput, Offset: 3, Text: "\n"}, event.ItemCompleted{Item: cmdDone},
		event.StreamRetried{Attempt: 1, Max: 5, DelayMS: 200, Cause: "cut", Begun: true},
		event.StreamRetried{Attempt: 2, Max: 5, DelayMS: 400, Cause: "busy"},
		event.ItemStarted{Item: patch}, event.ItemCompleted{Item: patchDone},
		event.ItemStarted{Item: tool}, event.ItemCompleted{Item: toolDone},
		event.ItemStarted{Item: cell}, event.ItemDelta{Item: "i5", Delta: event.DeltaOutput, Text: "1\n"}, event.ItemCompleted{Item: cellDone},
		event.Notice{Level: "warning", Text: "careful", Next: "look"},
		event.ItemStarted{Item: msg}, event.ItemDelta{Item: "i4", Delta: event.DeltaText, Text: "all \x1b[31m"},
		event.ItemDelta{Item: "i4", Delta: event.DeltaText, Offset: 4, Text: "done"}, event.ItemCompleted{Item: msgDone},
		event.TurnEnded{Status: event.TurnCompleted, LastMessage: "all done", Usage: event.Tokens{Input: 1200, Output: 30}, TurnUsage: event.Tokens{Input: 200, Output: 30}, DurationMS: 1500},
	}
	var out []event.Event
	for _, b := range bodies {
		out = append(out, event.Event{Body: b})
	}
	return out
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (UPDATE=1 rewrites it):\n%s", path, got)
	}
}

func TestHuman(t *testing.T) {
	var b strings.Builder
	h := NewHuman(&b, false, false)
	for _, e := range story() {
		h.Event(e)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a control character reached the terminal")
	}
	golden(t, "human.txt", b.String())
}

// A line that does not end is shown as far as a line is shown, however it arrives; the next one is shown again.
func TestHumanLongLine(t *testing.T) {
	cmd := event.Item{ID: "i", Type: event.ItemCommand, Status: event.StatusInProgress, Command: "cat"}
	out := func(text string) event.Body {
		return event.ItemDelta{Item: "i", Delta: event.DeltaOutput, Text: text}
	}
	for _, verbose := range []bool{false, true} {
		var got strings.Builder
		h := NewHuman(&got, false, verbose)
		h.Event(event.Event{Body: event.ItemStarted{Item: cmd}})
		for range 100 {
			h.Event(event.Event{Body: out(strings.Repeat("é", 500))})
		}
		h.Event(event.Event{Body: out("end\nshort\n" + strings.Repeat("x", 5000))})
		h.Event(event.Event{Body: event.ItemCompleted{Item: cmd}})
		long, last := strings.Repeat("é", 50_000)+"end", strings.Repeat("x", 5000)
		if !verbose {
			long, last = strings.Repeat("é", 2048)+"… 95907 more bytes", strings.Repeat("x", 4096)+"… 904 more bytes"
		}
		if want := "  " + long + "\n  short\n  " + last + "\n"; !strings.Contains(got.String(), want) {
			t.Errorf("verbose %v: shown were %d bytes, without the %d that are wanted:\n%.100s", verbose, got.Len(), len(want), got.String())
		}
	}
}

// Calls that run side by side: each block says whose it is, also where two run the same command, and after a question.
func TestHumanSideBySide(t *testing.T) {
	call := func(id event.ItemID, command string) event.Item {
		return event.Item{ID: id, Type: event.ItemCommand, Status: event.StatusInProgress, Command: command}
	}
	out := func(id event.ItemID, text string) event.Body {
		return event.ItemDelta{Item: id, Delta: event.DeltaOutput, Text: text}
	}
	ended := func(it event.Item, status int32) event.Body {
		it.Status, it.ExitCode = event.StatusCompleted, code(status)
		return event.ItemCompleted{Item: it}
	}
	a, b, c, d := call("a", "make\nmake test"), call("b", "sleep 1"), call("c", "sleep 1"), call("d", "true")
	var got strings.Builder
	h := NewHuman(&got, false, false)
	for _, body := range []event.Body{
		event.ItemStarted{Item: a}, out("a", "one\n"), event.ItemStarted{Item: b}, event.ItemStarted{Item: c},
		out("a", "two\nthree\n"), out("b", "of b\n"), out("c", "of c\n"), out("c", "more of c\n"), ended(b, 1),
		event.QuestionAsked{ID: "q", About: event.QuestionClientTool, Title: "beep"}, event.QuestionResolved{ID: "q", By: "user"}, // of no interest to people
		event.QuestionAsked{Title: "$ rm"}, event.QuestionResolved{Answer: "deny", By: "user"},
		out("c", "the last of c\n"), ended(c, 0), ended(a, 0),
		// One after the other again: nothing has to be told apart.
		event.ItemStarted{Item: d}, event.QuestionAsked{Title: "$ true"}, event.QuestionResolved{Answer: "approve", By: "user"},
		out("d", "of d\n"), ended(d, 0),
	} {
		h.Event(event.Event{Body: body})
	}
	golden(t, "side_by_side.txt", got.String())
}

func TestJSONL(t *testing.T) {
	var b strings.Builder
	j := newJSONL(&b)
	j.Started("01a1fc33-dd96-78be-8d00-945fbe145512")
	for _, e := range story() {
		if err := j.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "jsonl.txt", b.String())
}

// A command that outlives its turn does not leave its item open.
// A call of an MCP server's tool shows the server's result as it came, an error of the server's as a result, and why there is none.
func TestJSONLOfMCPCalls(t *testing.T) {
	it := event.Item{ID: "i", Type: event.ItemMCPCall, Server: "s", Tool: "t", Status: event.StatusCompleted, Output: "cut for the model"}
	for _, tc := range []struct {
		status             event.ItemStatus
		result, err, shown string
	}{
		{event.StatusCompleted, `{"content":[{"type":"image","data":"gantry-artifact:12"}],"structuredContent":{"b":1,"a":"<"},"_meta":{}}`, "",
			`"result":{"content":[{"type":"image","data":"gantry-artifact:12"}],"structured_content":{"b":1,"a":"<"}},"error":null,"status":"completed"}`},
		{event.StatusFailed, `{"content":[{"type":"text","text":"no"}],"isError":true}`, "", `"result":{"content":[{"type":"text","text":"no"}],"structured_content":null},"error":null,"status":"failed"}`},
		{event.StatusFailed, "", "the server is gone", `"result":null,"error":{"message":"the server is gone"},"status":"failed"}`},
		{event.StatusCompleted, "", "", `"result":{"content":[{"text":"cut for the model","type":"text"}],"structured_content":null},"error":null,"status":"completed"}`},
	} {
		it.Status, it.Result, it.Error = tc.status, json.RawMessage(tc.result), tc.err
		if tc.result == "" {
			it.Result = nil
		}
		var b strings.Builder
		if err := newJSONL(&b).Event(event.Event{Body: event.ItemCompleted{Item: it}}); err != nil {
			t.Fatal(err)
		}
		if want := `"server":"s","tool":"t","arguments":{},` + tc.shown; !strings.Contains(b.String(), want) {
			t.Errorf("%s\nwant %s", b.String(), want)
		}
	}
}

func TestJSONLClosesWhatIsOpen(t *testing.T) {
	var b strings.Builder
	j := newJSONL(&b)
	for _, body := range []event.Body{
		event.ItemStarted{Item: event.Item{ID: "a", Type: event.ItemCommand, Status: event.StatusInProgress}},
		event.TurnEnded{Status: event.TurnFailed, Error: &event.Problem{Message: "no", Next: "Do that."}},
	} {
		if err := j.Event(event.Event{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`"type":"item.completed"`, `{"type":"error","message":"no; next: Do that."}`, `"type":"turn.failed"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// What is said in a line of its own is not said twice, and nothing is said of what nobody knows.
func TestHumanLines(t *testing.T) {
	one, other := event.Selection{Model: "one", Provider: "p", ModelName: "m"}, event.Selection{Model: "other", Provider: "p", ModelName: "m"}
	figures := "1s · 5 tokens in (0 cached), 0 out\n"
	for _, tc := range []struct {
		body event.Body
		want string
	}{
		{event.TurnEnded{Status: event.TurnInterrupted, Reason: "interrupted", DurationMS: 1000, TurnUsage: event.Tokens{Input: 5}}, "interrupted\n" + figures},
		{event.TurnEnded{Status: event.TurnInterrupted, Reason: "the host is shutting down", DurationMS: 1000, TurnUsage: event.Tokens{Input: 5}},
			"interrupted: the host is shutting down\n" + figures},
		{event.TurnEnded{Status: event.TurnInterrupted, Reason: "the thread was forked in the middle of this turn"}, "interrupted: the thread was forked in the middle of this turn\n"},
		{event.TurnEnded{Status: event.TurnFailed, Error: &event.Problem{Message: "no", Next: "do that"}, DurationMS: 1000, TurnUsage: event.Tokens{Input: 5}},
			"Error: no\n  Next: do that\n" + figures},
		{event.ModelChanged{From: one, To: event.Selection{Model: "other", Provider: "p", ModelName: "n"}}, "model changed from m (p) to n (p)\n"},
		{event.ModelChanged{From: one, To: other}, "model changed from one: m (p) to other: m (p)\n"},
	} {
		var b strings.Builder
		NewHuman(&b, false, false).Event(event.Event{Body: tc.body})
		if b.String() != tc.want {
			t.Errorf("%q, want %q", b.String(), tc.want)
		}
	}
}

// A call of an MCP server's tool is shown with its server, whose tools may have the names of others.
func TestCallsNameTheirServer(t *testing.T) {
	for want, it := range map[string]event.Item{
		"notes.add {}": {Type: event.ItemMCPCall, Server: "notes", Tool: "add", Arguments: json.RawMessage("{}")},
		"add {}":       {Type: event.ItemTool, Server: "notes", Tool: "add", Arguments: json.RawMessage("{}")},
		"add":          {Type: event.ItemMCPCall, Tool: "add"},
	} {
		if got := title(it); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
