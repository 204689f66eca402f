package mcpserver

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Settings of a call are those of the configuration by their names, and nothing in their values is a template.
func TestStart(t *testing.T) {
	base := []string{"a=1"}
	s := &Server{cfg: Config{Workspace: hub.Workspace{Dir: "/server", Sets: base}}}
	p, err := s.start(agentParams{
		Cwd: "sub/../dir", Sandbox: "danger-full-access", Compact: "be ${brief} 100%{x}",
		Config: map[string]any{"history": map[string]any{"compact_at_tokens": 5.0}, "sandbox.network": true, "list": []any{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a=1", `history.compact_at_tokens=5`, `history.compact_prompt="be $${brief} 100%%{x}"`, `list=["a","b"]`, "sandbox.network=true"}
	if !slices.Equal(p.Sets, want) || p.Dir != filepath.FromSlash("/server/dir") || p.Sandbox != "full-access" || len(base) != 1 {
		t.Errorf("%+v", p)
	}
	for _, name := range []string{"a=b", "a\nb", `a"b`} {
		if _, err := s.start(agentParams{Config: map[string]any{"x": map[string]any{name: 1}}}); err == nil || !strings.Contains(err.Error(), "not the name of a setting") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What each answer of a client means for each kind of question.
func TestAnswers(t *testing.T) {
	approval := event.QuestionAsked{About: event.QuestionApproval, Options: []string{hub.ApproveSession}, Rule: &event.RuleOffer{Line: "allow x", Deny: "deny x"}}
	plugin := event.QuestionAsked{About: event.QuestionForm, Plugin: "mcp", Schema: json.RawMessage(`{}`)}
	choice := event.QuestionAsked{About: event.QuestionChoice, Plugin: "mcp", Options: []string{"red", "blue"}}
	decide := func(v any) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": v}}
	}
	for i, tc := range []struct {
		q    event.QuestionAsked
		r    *mcp.ElicitResult
		want string
	}{
		{approval, &mcp.ElicitResult{Action: "accept"}, hub.Approve},
		{approval, decide(hub.ApproveSession), hub.ApproveSession},
		{approval, decide(hub.ApproveAlways), hub.ApproveAlways},
		{approval, decide(hub.DenyAlways), hub.DenyAlways},
		{approval, decide(hub.ApproveTurn), hub.Deny},
		{approval, decide(7), hub.Deny},
		{approval, decide(nil), hub.Deny},
		{approval, &mcp.ElicitResult{Action: "decline", Content: map[string]any{"decision": hub.Approve}}, hub.Deny},
		{approval, &mcp.ElicitResult{Action: "cancel"}, hub.Abort},
		{approval, &mcp.ElicitResult{Action: "ACCEPT"}, hub.Deny},
		{event.QuestionAsked{About: event.QuestionApproval}, decide(hub.ApproveAlways), hub.Deny},
		{event.QuestionAsked{About: event.QuestionPermissions}, &mcp.ElicitResult{Action: "accept"}, hub.ApproveTurn},
		{event.QuestionAsked{About: event.QuestionPermissions}, &mcp.ElicitResult{Action: "cancel"}, hub.Abort},
		{choice, decide("blue"), "blue"},
		{choice, decide("green"), hub.Deny},
		{choice, &mcp.ElicitResult{Action: "accept"}, hub.Deny},
		{choice, &mcp.ElicitResult{Action: "cancel"}, hub.Dismiss},
		{plugin, &mcp.ElicitResult{Action: "accept"}, hub.Deny},
		{plugin, &mcp.ElicitResult{Action: "cancel"}, hub.Dismiss},
		{plugin, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"size": 3}}, `{"size":3}`},
		{event.QuestionAsked{About: event.QuestionURL, Plugin: "mcp", URL: "https://a.test"}, &mcp.ElicitResult{Action: "accept"}, "{}"},
	} {
		a := answer(tc.q, tc.r)
		if got := a.Choice + string(a.Data); got != tc.want {
			t.Errorf("%d: %+v on a question about %v: %q, want %q", i, tc.r, tc.q.About, got, tc.want)
		}
	}
}

// A question names who asks, says all that is asked about, and fits into a window.
func TestQuestions(t *testing.T) {
	c := &call{thread: &hub.Thread{}, items: map[event.CallID]event.Item{
		"c1": {Type: event.ItemCommand, Command: "make", Cwd: "/w"},
		"c2": {Type: event.ItemFileChange, Changes: []event.FileChange{{Kind: "update", Path: "a.go", Diff: "-a\n+b"}}},
		"c3": {Type: event.ItemMCPCall, Arguments: json.RawMessage(`{"text":"milk"}`)},
		"c4": {Type: event.ItemTool, Arguments: json.RawMessage("{\x1b" + strings.Repeat("a", 2*maxLine))},
	}}
	for _, tc := range []struct {
		q    event.QuestionAsked
		want string
	}{
		{event.QuestionAsked{About: event.QuestionApproval, Call: "c1", Title: "Run a command", Reason: "it may write"}, "Run a command\n\nit may write\n\nmake\n\nIn /w"},
		{event.QuestionAsked{About: event.QuestionApproval, Call: "c2", Title: "Change files"}, "Change files\n\nupdate a.go\n-a\n+b"},
		{event.QuestionAsked{About: event.QuestionApproval, Call: "c1", Title: "make", Chain: []string{"python", "exec_command"}}, "make\n\npython → exec_command\n\nIn /w"},
		{event.QuestionAsked{About: event.QuestionApproval, Call: "c3", Title: "notes.add", Reason: "it acts"}, "notes.add\n\nit acts\n\nArguments: {\"text\":\"milk\"}"},
		{event.QuestionAsked{About: event.QuestionApproval, Call: "c4", Title: "t"}, "t\n\nArguments: {\uFFFD" + strings.Repeat("a", maxLine-4) + "… (1028 bytes more)"},
		{event.QuestionAsked{About: event.QuestionForm, Call: "c3", Plugin: "mcp", Title: "t"}, "t\n\nAsked by mcp"},
		{event.QuestionAsked{About: event.QuestionForm, Call: "c1", Plugin: "mcp", Source: "shop", Title: "Run a command", Message: "rm\u202e -rf\x1b[2J"}, "Run a command\n\nAsked by mcp/shop\n\nrm\uFFFD -rf\uFFFD[2J"},
	} {
		if got := c.message(tc.q); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	p := c.elicitation(event.QuestionAsked{ID: "q1", About: event.QuestionApproval, Title: strings.Repeat("ü", maxText), Rule: &event.RuleOffer{Line: "allow\x1b x"}})
	raw, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		t.Fatal(err)
	}
	const schema = `{"properties":{"decision":{"enum":["approve","approve_always","deny"],"enumNames":["Allow","Always allow: allow` + "\uFFFD" + ` x","Reject"],"title":"Decision","type":"string"}},"type":"object"}`
	if string(raw) != schema || len(p.Message) > maxText+100 || !utf8.ValidString(p.Message) {
		t.Errorf("%s with a message of %d bytes", raw, len(p.Message))
	}
	page := c.elicitation(event.QuestionAsked{ID: "q1", About: event.QuestionURL, Plugin: "mcp", URL: "https://a.test"})
	if page.Mode != "url" || page.URL != "https://a.test" || page.ElicitationID != "q1" {
		t.Errorf("%+v", page)
	}
}

// Each part of a tool's result is content that a client can use.
func TestContents(t *testing.T) {
	out := contents("th", hub.ToolResult{
		Content: []llm.Part{
			&llm.Text{Text: "text"}, &llm.Media{MediaType: "image/png", Data: []byte("p")}, &llm.Media{MediaType: "audio/wav", Data: []byte("w")},
			&llm.Media{MediaType: "application/pdf", Data: []byte("d")}, &llm.Media{MediaType: "application/pdf", Artifact: "abc", Filename: "a.pdf"}, &llm.Media{MediaType: "image/png", Artifact: "def"},
		},
	})
	var got []string
	for _, c := range out {
		raw, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	want := []string{
		`{"type":"text","text":"text"}`, `{"type":"image","mimeType":"image/png","data":"cA=="}`, `{"type":"audio","mimeType":"audio/wav","data":"dw=="}`,
		`{"type":"resource","resource":{"uri":"gantry-content://th/3","mimeType":"application/pdf","blob":"ZA=="}}`,
		`{"type":"resource_link","mimeType":"application/pdf","uri":"gantry-artifact://th/abc","name":"a.pdf"}`, `{"type":"resource_link","mimeType":"image/png","uri":"gantry-artifact://th/def","name":"def"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlain(t *testing.T) {
	for _, tc := range []struct {
		in    string
		limit int
		want  string
	}{
		{"a\tb\nc", 100, "a\tb\nc"},
		{"a\rb\x1b[31m\u0085", 100, "a\uFFFDb\uFFFD[31m\uFFFD"},
		{"\u202eabc\u2066", 100, "\uFFFDabc\uFFFD"},
		{"a\xffb", 100, "a\uFFFDb"},
		{"1234567890", 10, "1234567890"},
		{"12345678901", 10, "1234567890… (1 bytes more)"},
		{"123456789üü", 10, "123456789… (4 bytes more)"},
	} {
		if got := plain(tc.in, tc.limit); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
	}
}

// The schema of structured content is that of the tool, or the inner one of a result of an MCP server; only objects are sent.
func TestStructuredSchema(t *testing.T) {
	whole := `{"type":"object","properties":{"content":{"type":"array"},"structuredContent":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}},"$defs":{"n":{"type":"number"}}}`
	service := []contract.Effect{contract.ServiceEffect{Service: "s", Action: "a"}}
	for _, tc := range []struct {
		schema  string
		effects []contract.Effect
		want    string
	}{
		{``, nil, ``}, {`{"type":"array"}`, nil, ``}, {`true`, nil, ``}, {`{"type":"object","required":["a"]}`, nil, `{"required":["a"],"type":"object"}`},
		{whole, service, `{"$defs":{"n":{"type":"number"}},"properties":{"n":{"$ref":"#/$defs/n"}},"type":"object"}`},
		{`{"type":"object"}`, service, ``}, {`{"properties":{"structuredContent":{"type":"array"}},"type":"object"}`, service, ``},
	} {
		if got := structuredSchema(contract.Descriptor{OutputSchema: json.RawMessage(tc.schema), Effects: tc.effects}); string(got) != tc.want {
			t.Errorf("%s: %s, want %s", tc.schema, got, tc.want)
		}
	}
}
