package acp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

func pixel(t testing.TB) string {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes())
}

func TestInput(t *testing.T) {
	for _, tt := range []struct{ blocks, want string }{
		{`{"type":"text","text":"hi"}`, `"hi"`},
		{`{"type":"text","text":"see "},{"type":"resource_link","name":"a.go","uri":"file:///w/a.go"}`, `"see " "[@a.go](/w/a.go)"`},
		{`{"type":"resource_link","name":"","uri":"https://x.example/y"}`, `"[@y](https://x.example/y)"`},
		{`{"type":"resource","resource":{"uri":"file:///w/a.go#L1","text":"package a"}},{"type":"text","text":" why?"}`,
			`"[@a.go#L1](/w/a.go#L1)" " why?" "\n<context ref=\"/w/a.go#L1\">\npackage a\n</context>"`},
		{`{"type":"image","mimeType":"image/gif","data":"` + pixel(t) + `"}`, `image/png ""`},
		{`{"type":"resource","resource":{"uri":"file:///w/p.png","mimeType":"image/png","blob":"` + pixel(t) + `"}}`, `image/png "p.png"`},
		{``, `prompt: it must not be empty`},
		{`{"type":"text","text":""}`, `prompt: it must not be empty`},
		{`{"type":"text","text":"a"},7`, `prompt[1]: it must be an object with a type`},
		{`{"text":"a"}`, `prompt[0].type: it must be one of text, image, audio, resource_link, resource`},
		{`{"type":"video"}`, `prompt[0].type: it must be one of text, image, audio, resource_link, resource`},
		{`{"type":"text"}`, `prompt[0].text: it is missing`},
		{`{"type":"text","text":7}`, `prompt[0].text: it must be a string`},
		{`{"type":"audio","mimeType":"audio/wav","data":""}`, `prompt[0].type: audio is not supported: initialize does not offer it`},
		{`{"type":"image","mimeType":"image/png","data":"!"}`, `prompt[0].data: it is not base64: illegal base64 data at input byte 0`},
		{`{"type":"resource","resource":{"uri":"file:///x"}}`, `prompt[0].resource: `},
	} {
		var blocks []json.RawMessage
		if err := json.Unmarshal([]byte("["+tt.blocks+"]"), &blocks); err != nil {
			t.Fatal(err)
		}
		in, err := input(blocks)
		got := ""
		if err != nil {
			got = err.Error()
			if strings.HasSuffix(tt.want, ": ") && strings.HasPrefix(got, tt.want) {
				continue
			}
		}
		for _, p := range in.Parts {
			switch p := p.(type) {
			case *llm.Text:
				got += fmt.Sprintf("%q ", p.Text)
			case *llm.Media:
				got += fmt.Sprintf("%s %q ", p.MediaType, p.Filename)
			}
		}
		if got = strings.TrimSpace(got); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.blocks, got, tt.want)
		}
	}
	long, _ := json.Marshal(map[string]string{"type": "text", "text": strings.Repeat("é", maxInput+1)})
	if _, err := input([]json.RawMessage{long}); err == nil || !strings.HasPrefix(err.Error(), "prompt: it has 1048577 characters") {
		t.Errorf("error %v", err)
	}
}

// No block causes a panic, and an input that is accepted has parts.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{"type":"text","text":"hi"}`, `{"type":"image","mimeType":"image/png","data":"` + pixel(f) + `"}`, `{"type":"resource_link","name":"a","uri":"file:///a"}`,
		`{"type":"resource","resource":{"uri":"file:///a","text":"t"}}`, `{"type":"resource","resource":{"uri":"u","blob":"AA=="}}`, `{"type":"audio"}`, `null`, `{"type":null}`,
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		in, err := input([]json.RawMessage{a, b})
		if e, ok := err.(*rpc.Error); err != nil && (!ok || e.Code != rpc.InvalidParams || !strings.HasPrefix(e.Message, "prompt")) {
			t.Errorf("error %v", err)
		}
		if (err == nil) != (len(in.Parts) > 0) {
			t.Errorf("%d parts, %v", len(in.Parts), err)
		}
		command(in)
	})
}

func TestCommandLine(t *testing.T) {
	for text, want := range map[string]string{
		"/compact": "compact|", " /review branch main ": "review|branch main", "/rename  A b": "rename|A b", "/unknown x": "|", "compact": "|", "/ compact": "|",
	} {
		name, args := command(hub.Input{Parts: []llm.Part{&llm.Text{Text: text}}})
		if got := name + "|" + args; got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for args, want := range map[string]hub.ReviewTarget{
		"": {Kind: "uncommittedChanges"}, "branch main": {Kind: "baseBranch", Branch: "main"}, "commit abc": {Kind: "commit", SHA: "abc"},
		"the tests": {Kind: "custom", Instructions: "the tests"}, "commit to it": {Kind: "custom", Instructions: "commit to it"},
	} {
		if got, err := reviewTarget(args); err != nil || got != want {
			t.Errorf("%q is %+v, %v", args, got, err)
		}
	}
	if _, err := reviewTarget("branch"); err == nil {
		t.Error("a branch without a name")
	}
}

// item decodes an item.
func item(t *testing.T, text string) protocol.ThreadItem {
	t.Helper()
	var it protocol.ThreadItem
	if err := json.Unmarshal([]byte(text), &it); err != nil {
		t.Fatal(err)
	}
	return it
}

func TestToolCall(t *testing.T) {
	command := func(actions, status string) string {
		return `{"type":"commandExecution","id":"c","command":"cat a\nb","cwd":"/w","status":"` + status + `","commandActions":[` + actions + `],"source":"agent","processId":null,"aggregatedOutput":null,"exitCode":null,"durationMs":null}`
	}
	change := func(changes string) string {
		return `{"type":"fileChange","id":"f","status":"completed","changes":[` + changes + `]}`
	}
	read, search := `{"type":"read","command":"cat a","name":"a","path":"a"}`, `{"type":"search","command":"rg x","query":"x","path":null}`
	add := `{"path":"/w/n","kind":{"type":"add"},"diff":"+a\n"}`
	remove := `{"path":"/w/o","kind":{"type":"delete"},"diff":""}`
	move := `{"path":"/w/o","kind":{"type":"update","move_path":"/w/p"},"diff":"@@ -3 +3 @@\n-a\n+b\n"}`
	for _, tt := range []struct{ item, want string }{
		{command("", "inProgress"), `execute "cat a …" in_progress []`},
		{command(read, "completed"), `read "cat a …" completed [/w/a]`},
		{command(search, "failed"), `search "cat a …" failed []`},
		{command(read+","+search, "declined"), `execute "cat a …" failed [/w/a]`},
		{change(add), `edit "Create n" completed [/w/n]`},
		{change(remove), `delete "Delete o" completed [/w/o]`},
		{change(move), `move "Move o" completed [/w/p:3]`},
		{change(add + "," + remove), `edit "Edit 2 files" completed [/w/n /w/o]`},
		{change(add + "," + add), `edit "Create 2 files" completed [/w/n /w/n]`},
		{`{"type":"webSearch","id":"w","query":"go","action":null}`, `fetch "Search the web: go" in_progress []`},
		{`{"type":"imageView","id":"i","path":"/w/a.png"}`, `read "View a.png" in_progress [/w/a.png]`},
		{`{"type":"contextCompaction","id":"x"}`, `think "Shorten the conversation" in_progress []`},
		{`{"type":"agentMessage","id":"m","text":"hi","phase":null}`, `none`},
	} {
		call, ok := toolCall(item(t, tt.item))
		got := "none"
		if ok {
			var at []string
			for _, l := range call.Locations {
				if l.Line != nil {
					l.Path += fmt.Sprintf(":%d", *l.Line)
				}
				at = append(at, l.Path)
			}
			got = fmt.Sprintf("%s %q %s %v", *call.Kind, *call.Title, *call.Status, at)
		}
		if got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.item, got, tt.want)
		}
	}
}

// The hunks of a diff contain lines of both texts.
func TestHunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "@@ c", "-d", "+e", "\\ f", ""}), 0, 12).Draw(t, "lines")
			out := strings.Join(lines, "\n")
			if out != "" && rapid.Bool().Draw(t, "newline") {
				out += "\n"
			}
			return out
		})
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		for _, h := range hunksOf(udiff.Unified("old", "new", before, after)) {
			if !strings.Contains(before, h.before) || !strings.Contains(after, h.after) {
				t.Errorf("%q → %q is not a part of %q → %q", h.before, h.after, before, after)
			}
		}
	})
	if h := hunksOf("@@ -1,0 +7,2 @@ func\n+a"); len(h) != 1 || h[0].line != 7 || h[0].after != "a" {
		t.Errorf("a diff that was cut off: %+v", h)
	}
}

func FuzzHunks(f *testing.F) {
	f.Add("--- a\n+++ b\n@@ -1,2 +3,4 @@\n a\n-b\n+c\n\\ No newline at end of file\n")
	f.Add("@@\n\n+")
	f.Fuzz(func(t *testing.T, diff string) {
		for _, h := range hunksOf(diff) {
			if len(h.before)+len(h.after) > 2*len(diff) || h.line < 0 {
				t.Errorf("%+v", h)
			}
		}
	})
}

func TestChoices(t *testing.T) {
	rule := &event.RuleOffer{Line: `allow "go test"`, Deny: `deny "go test"`}
	for _, tt := range []struct {
		asked event.QuestionAsked
		want  []string
	}{
		{event.QuestionAsked{About: event.QuestionApproval}, []string{"approve allow_once Allow", "deny reject_once Reject"}},
		{event.QuestionAsked{About: event.QuestionApproval, Options: []string{hub.Approve, hub.ApproveSession}, Rule: rule}, []string{
			"approve allow_once Allow", "approve_session allow_always Allow for this session", `approve_always allow_always Always allow: allow "go test"`,
			"deny reject_once Reject", `deny_always reject_always Always reject: deny "go test"`,
		}},
		{event.QuestionAsked{About: event.QuestionPermissions}, []string{
			"approve_turn allow_once Allow for this turn", "approve_session allow_always Allow for this session", "deny reject_once Reject",
		}},
		{event.QuestionAsked{About: event.QuestionChoice, Options: []string{"left", "right"}}, []string{"left allow_once left", "right allow_once right"}},
		{event.QuestionAsked{About: event.QuestionForm}, nil},
	} {
		var got []string
		for _, o := range choices(tt.asked) {
			got = append(got, fmt.Sprintf("%s %s %s", o.OptionId, o.Kind, o.Name))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.asked.About, got, tt.want)
		}
	}
}

func TestExplainNestedCalls(t *testing.T) {
	if got := explain(event.QuestionAsked{Chain: []string{"python", "exec_command"}, Reason: "why"}); got != "python → exec_command\n\nwhy" {
		t.Errorf("%q", got)
	}
}

// A response that makes no sense refuses.
func TestChosen(t *testing.T) {
	q := event.QuestionAsked{About: event.QuestionApproval}
	for _, tt := range []struct {
		result string
		failed *rpc.Error
		want   string
	}{
		{`{"outcome":{"outcome":"selected","optionId":"approve"}}`, nil, hub.Approve},
		{`{"outcome":{"outcome":"selected","optionId":"approve_always"}}`, nil, hub.Deny}, // was not offered
		{`{"outcome":{"outcome":"cancelled"}}`, nil, hub.Abort},
		{`{"outcome":{"outcome":"later"}}`, nil, hub.Deny},
		{`7`, nil, hub.Deny},
		{``, &rpc.Error{Code: -32601}, hub.Deny},
	} {
		if got := chosen(q, json.RawMessage(tt.result), tt.failed); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.result, got, tt.want)
		}
	}
}

func TestModeOf(t *testing.T) {
	efforts := []string{"low", "medium", "high"}
	d := defaults{
		approval: "on-request", sandbox: "workspace-write", model: "m", models: []*config.Model{{Label: "m", Reasoning: "minimal"}, {Label: "plain"}},
		efforts: func(label string) []string {
			if label == "plain" {
				return nil
			}
			return efforts
		},
	}
	for _, tt := range []struct {
		set  event.Settings
		want acp.SessionModeId
	}{
		{event.Settings{}, "auto"}, {event.Settings{Sandbox: "read-only"}, "read-only"}, {event.Settings{Approval: "never"}, configured},
		{event.Settings{Approval: "never", Sandbox: "full-access"}, "full-access"}, {event.Settings{Approval: "untrusted"}, "ask"},
	} {
		if got := d.modeOf(tt.set); got != tt.want {
			t.Errorf("%+v is %s, want %s", tt.set, got, tt.want)
		}
		if modes := d.modesOf(tt.set); slices.ContainsFunc(modes.AvailableModes, func(m acp.SessionMode) bool { return m.Id == configured }) != (tt.want == configured) {
			t.Errorf("%+v offers %+v", tt.set, modes)
		}
	}
	options := d.optionsOf(event.Settings{})
	if e := options[2].Select; e.CurrentValue != "minimal" || len(*e.Options.Ungrouped) != 4 {
		t.Errorf("effort %+v", e)
	}
	efforts = []string{"minimal", "high", "xhigh"}
	options = d.optionsOf(event.Settings{})
	if e := options[2].Select; e.CurrentValue != "minimal" || len(*e.Options.Ungrouped) != 3 || (*e.Options.Ungrouped)[2].Value != "xhigh" {
		t.Errorf("efforts of the model %+v", e)
	}
	if options = d.optionsOf(event.Settings{Model: "plain"}); len(options) != 2 {
		t.Errorf("a model without efforts has the options %+v", options)
	}
}

// texts returns the texts of the chunks of updates.
func texts(us []acp.SessionUpdate) (out string) {
	for _, u := range us {
		if u.AgentMessageChunk != nil {
			out += u.AgentMessageChunk.Content.Text.Text
		}
	}
	return out
}

// A message whose deltas were lost in part is sent whole when it has ended.
func TestLostDeltas(t *testing.T) {
	for _, tt := range []struct{ delta, text, want string }{
		{"Hello", "Hello world", "Hello world"}, {"world", "Hello world", "world\n\nHello world"}, {"Hello", "Hello", "Hello"}, {"", "Hello", "Hello"}, {"He", "", "He"},
	} {
		v := newView(false, nil)
		got := ""
		if tt.delta != "" {
			got = texts(v.updates(transcript.Change{Params: protocol.AgentMessageDeltaNotification{ItemID: "m", Delta: tt.delta}}))
		}
		got += texts(v.completed(protocol.ThreadItem{Body: protocol.AgentMessageItem{ItemHeader: protocol.ItemHeader{ID: "m"}, Text: tt.text}}))
		if got != tt.want || len(v.sent) != 0 {
			t.Errorf("%+v: got %q, and kept %q", tt, got, v.sent)
		}
	}
}

// Output of a running command is sent whole, at most its end, and as it comes to editors that show terminals.
func TestLiveOutput(t *testing.T) {
	header := protocol.ItemHeader{ID: "c"}
	running := protocol.ThreadItem{Body: protocol.CommandExecutionItem{ItemHeader: header, Command: "x", Cwd: "/w", Status: protocol.ItemInProgress}}
	all := "one\ntwo\n"
	ended := protocol.ThreadItem{Body: protocol.CommandExecutionItem{
		ItemHeader: header, Command: "x", Cwd: "/w", Status: protocol.ItemCompleted, AggregatedOutput: &all, ExitCode: new(int32(0)),
	}}
	play := func(v *view) string {
		us := v.started(running)
		for _, d := range []string{"one\n", "two\n"} {
			us = append(us, v.wrote("c", d)...)
		}
		us = append(us, v.flush()...)
		us = append(us, v.completed(ended)...)
		raw, err := json.Marshal(us)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	fence := "```"
	plain := `[{"kind":"execute","rawInput":{"command":"x","cwd":"/w"},"sessionUpdate":"tool_call","status":"in_progress","title":"x","toolCallId":"c"},` +
		`{"content":[{"content":{"text":"` + fence + `\none\ntwo\n` + fence + `","type":"text"},"type":"content"}],"sessionUpdate":"tool_call_update","toolCallId":"c"},` +
		`{"content":[{"content":{"text":"` + fence + `\none\ntwo\n` + fence + `","type":"text"},"type":"content"}],"kind":"execute","rawOutput":{"exitCode":0},"sessionUpdate":"tool_call_update","status":"completed","title":"x","toolCallId":"c"}]`
	if got := sorted(t, play(newView(false, nil))); got != sorted(t, plain) {
		t.Errorf("got %s\nwant %s", got, plain)
	}
	got := play(newView(true, nil))
	for _, want := range []string{
		`"terminal_info":{"cwd":"/w","terminal_id":"c"}`, `"terminal_output":{"data":"one\n","terminal_id":"c"}`, `"terminal_exit":{"exit_code":0,"signal":null,"terminal_id":"c"}`,
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	if got := tail("é" + strings.Repeat("x", maxLive-1)); got != strings.Repeat("x", maxLive-1) {
		t.Errorf("the end of an output has %d bytes", len(got))
	}
}

// sorted returns JSON with sorted members.
func sorted(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Plans, thoughts and usage.
func TestOtherUpdates(t *testing.T) {
	v := newView(false, nil)
	for _, tt := range []struct {
		params any
		want   string
	}{
		{protocol.TurnPlanUpdatedNotification{Plan: []protocol.TurnPlanStep{{Step: "a", Status: protocol.StepCompleted}, {Step: "b", Status: protocol.StepInProgress}, {Step: "c"}}},
			`[{"entries":[{"content":"a","priority":"medium","status":"completed"},{"content":"b","priority":"medium","status":"in_progress"},{"content":"c","priority":"medium","status":"pending"}],"sessionUpdate":"plan"}]`},
		{protocol.ReasoningSummaryTextDeltaNotification{ItemID: "r", Delta: "hm"}, `[{"content":{"text":"hm","type":"text"},"sessionUpdate":"agent_thought_chunk"}]`},
		{protocol.ThreadNameUpdatedNotification{ThreadName: new("n")}, `[{"sessionUpdate":"session_info_update","title":"n"}]`},
		{protocol.ThreadTokenUsageUpdatedNotification{TokenUsage: protocol.ThreadTokenUsage{Last: protocol.TokenUsageBreakdown{TotalTokens: 5}, ModelContextWindow: new(int64(9))}},
			`[{"sessionUpdate":"usage_update","size":9,"used":5}]`},
		{protocol.ThreadTokenUsageUpdatedNotification{}, `null`},
		{protocol.WarningNotification{Message: "careful"}, `[{"content":{"text":"Warning: careful\n","type":"text"},"sessionUpdate":"agent_thought_chunk"}]`},
	} {
		raw, err := json.Marshal(v.updates(transcript.Change{Params: tt.params}))
		if err != nil || sorted(t, string(raw)) != sorted(t, tt.want) {
			t.Errorf("%+v\ngot  %s, %v\nwant %s", tt.params, raw, err, tt.want)
		}
	}
}
