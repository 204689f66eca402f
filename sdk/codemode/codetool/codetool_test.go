package codetool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestToolDescriptor(t *testing.T) {
	call := func(context.Context, []json.RawMessage) (any, error) { return nil, nil }
	d := New(Options{Providers: []codemode.Provider{
		{Functions: []codemode.Function{
			{Declaration: codemode.Declaration{Name: "get-item"}, Call: call}, {Declaration: codemode.Declaration{Name: "approved"}, Call: call, NeedsApproval: true},
			{Declaration: codemode.Declaration{Name: "none"}},
		}},
		{Name: "cdp", Types: "declare const cdp: Cdp"},
	}}).Descriptor()
	for _, part := range []string{"plain JavaScript, not TypeScript", "get_item: (input: GetItemInput)", "}\n\ndeclare const cdp: Cdp"} {
		if !strings.Contains(d.Description, part) {
			t.Errorf("no %q in %s", part, d.Description)
		}
	}
	if d.Name != "code" || strings.Contains(d.Description, "approved") || strings.Contains(d.Description, "none") || !strings.Contains(string(d.InputSchema), `"code"`) {
		t.Errorf("%s: %s\n%s", d.Name, d.Description, d.InputSchema)
	}
}

func TestToolResult(t *testing.T) {
	shot := `{"type":"browser_screenshot","mediaType":"image/png","data":"AQID"}`
	for _, c := range []struct {
		name       string
		out        codemode.Outcome
		transform  func(context.Context, any) (any, error)
		text       string
		structured string
		isError    bool
	}{
		{"value", codemode.Outcome{Result: json.RawMessage(`{"a":1}`)}, nil, "{\n  \"a\": 1\n}", `{"result":{"a":1}}`, false},
		{"logs", codemode.Outcome{Result: json.RawMessage(`"x"`), Logs: []string{"l"}}, nil, "x\n\nConsole output:\nl", `{"result":"x","logs":["l"]}`, false},
		{"error", codemode.Outcome{Error: "boom", Logs: []string{"a", "b"}}, nil, "Code execution failed: boom\n\nConsole output:\na\nb", "", true},
		{"screenshot", codemode.Outcome{Result: json.RawMessage(shot)}, nil,
			"Screenshot captured (image/png, approximately 3 bytes). It is kept for the user interface and omitted here.",
			`{"result":{"data":"AQID","mediaType":"image/png","type":"browser_screenshot"}}`, false},
		{"transformed", codemode.Outcome{Result: json.RawMessage(`1`)}, func(_ context.Context, v any) (any, error) { return []any{v}, nil }, "[\n  1\n]", `{"result":[1]}`, false},
	} {
		r := Options{TransformResult: c.transform}.result(t.Context(), c.out)
		if text := r.Parts[0].(*tool.TextPart).Text; text != c.text || string(r.Structured) != c.structured || r.IsError != c.isError {
			t.Errorf("%s: %q, %s, %v", c.name, text, r.Structured, r.IsError)
		}
	}
}
