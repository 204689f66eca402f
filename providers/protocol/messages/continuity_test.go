package messages

import (
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// apart records an answer as a host does: each part is a message of its own.
func apart(m *llm.Message) []llm.Message {
	var out []llm.Message
	for _, p := range m.Parts {
		out = append(out, modelSays(p))
	}
	return out
}

// TestContinuity takes answers off the wire, and sends them back with what the tools say.
func TestContinuity(t *testing.T) {
	hosted, err := os.ReadFile("testdata/hosted.sse")
	if err != nil {
		t.Fatal(err)
	}
	parallel := sse(begins,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Both <at> once.\n"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqoB+/=="}}`, stopsAt0,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"RED+/=="}}`, stopsAt1,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"Reading."}}`, `{"type":"content_block_stop","index":2}`,
		calls("3", "toolu_1", "files__read"), inputs("3", `{"path": "a<b>"}`), `{"type":"content_block_stop","index":3}`,
		calls("4", "toolu_2", "now"), `{"type":"content_block_stop","index":4}`, endsCalls, ends)
	hidden := sse(begins,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"HID=="}}`, stopsAt0,
		calls("1", "toolu_1", "now"), stopsAt1, endsCalls, ends)
	tests := []struct {
		name   string
		stream []byte
		then   []llm.Message
		want   string // the answer on its way back
	}{
		{"parallel calls behind signed thinking", parallel, []llm.Message{toolSays("toolu_1", "A"), toolSays("toolu_2", "B")},
			`{"role":"assistant","content":[{"type":"thinking","thinking":"Both <at> once.\n","signature":"EqoB+/=="},` +
				`{"type":"redacted_thinking","data":"RED+/=="},{"type":"text","text":"Reading."},` +
				`{"type":"tool_use","id":"toolu_1","name":"files__read","input":{"path":"a<b>"}},{"type":"tool_use","id":"toolu_2","name":"now","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"A"},{"type":"tool_result","tool_use_id":"toolu_2","content":"B"}]}]}`},
		{"thinking that the vendor does not show", hidden, []llm.Message{toolSays("toolu_1", "A")},
			`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"HID=="},{"type":"tool_use","id":"toolu_1","name":"now","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"A"}]}]}`},
		{"tools that the vendor ran", hosted, []llm.Message{userSays("thanks")},
			`{"role":"assistant","content":[{"type":"thinking","thinking":"Search first.","signature":"SIG+/="},` +
				`{"id":"srvtoolu_1","input":{"query":"gantry <crane>"},"name":"web_search","type":"server_tool_use"},` +
				`{"caller":{"type":"direct"},"content":[{"type":"web_search_result","title":"Gantry cranes","url":"https://a.example/1","encrypted_content":"ENC1","page_age":null},` +
				`{"type":"web_search_result","title":"","url":"https://a.example/2","encrypted_content":"ENC2","page_age":"2 days ago"}],"tool_use_id":"srvtoolu_1","type":"web_search_tool_result"},` +
				`{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_9"},"id":"srvtoolu_2","input":{"code":"print(1)"},"name":"code_execution","type":"server_tool_use"},` +
				`{"content":{"type":"code_execution_result","stdout":"1\n","stderr":"","return_code":0,"content":[]},"tool_use_id":"srvtoolu_2","type":"code_execution_tool_result"},` +
				`{"id":"srvtoolu_3","input":{"url":"https://b.example"},"name":"web_fetch","type":"server_tool_use"},` +
				`{"content":{"type":"web_fetch_tool_result_error","error_code":"url_not_accessible"},"tool_use_id":"srvtoolu_3","type":"web_fetch_tool_result"},` +
				`{"type":"text","text":"A gantry holds a crane.","citations":[{"type":"web_search_result_location","cited_text":"Cranes.","url":"https://a.example/1","title":"Gantry cranes","encrypted_index":"IDX1"}]}]},` +
				`{"role":"user","content":[{"type":"text","text":"thanks"}]}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(func(r *protocol.Request) {
				thinkingModel(r, "high")
				r.Model.ID, r.Model.Family = "claude-opus-9", "claude-opus"
				r.Tools = []llm.Tool{{Namespace: "files", Name: "read"}, {Name: "now"}}
			})
			start := r.Messages
			m := answered(t, r, tt.stream)
			for how, said := range map[string][]llm.Message{"as one message": {*m}, "in messages of their own": apart(m)} {
				r.Messages = append(append(append([]llm.Message{}, start...), said...), tt.then...)
				raw, err := Protocol{}.Body(r)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(raw); !strings.HasSuffix(got, tt.want) {
					t.Errorf("%s:\n%s\nwant it to end in\n%s", how, got, tt.want)
				}
				if !strings.Contains(string(raw), `"thinking":{"type":"adaptive"}`) {
					t.Errorf("%s: the model does not think any more", how)
				}
			}
			// Another family reads nothing of what this one signed.
			r.Model.ID, r.Model.Family = "claude-sonnet-9", "claude-sonnet"
			raw, err := Protocol{}.Body(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, own := range []string{`"signature"`, `"redacted_thinking"`} {
				if strings.Contains(string(raw), own) {
					t.Errorf("another family is sent %s", raw)
				}
			}
		})
	}
}

// TestBrokenStreamIsKept sends back what was whole before a stream broke.
func TestBrokenStreamIsKept(t *testing.T) {
	r := request(nil)
	var f llm.Fold
	for _, e := range protocoltest.Events(t, Protocol{}, r, sse(begins,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"s"}}`, stopsAt0,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"whole"}}`, stopsAt1,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"half"}}`)) {
		f.Add(e)
	}
	r.Messages = append(r.Messages, *f.Ended())
	want := `u "hi"
a think(t s) "whole"
u "Continue."`
	if got := turns(t, r); got != want {
		t.Errorf("turns\n%s\nwant\n%s", got, want)
	}
}

// TestGoldens are whole bodies.
func TestGoldens(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	loop := func(r *protocol.Request) {
		r.Cache, r.Model.Input = "auto", []string{"image", "pdf"}
		r.Model.ID, r.Model.MaxOutputTokens = "claude-opus-9", 64_000
		r.System = []string{"You are careful.", "The folder is /work."}
		r.Tools = []llm.Tool{{Namespace: "files", Name: "read", Description: "Reads a file.", InputSchema: schema}, {Name: "now", Description: "Tells the time."}}
		r.Messages = []llm.Message{
			hostSays("The date is 2026-11-22."), userSays("Compare a and b."),
			modelSays(signed("Both at once.", "SIG==")), modelSays(&llm.Text{Text: "Reading both."}),
			modelSays(&llm.ToolCall{ID: "toolu_1", Namespace: "files", Name: "read", Input: `{"path":"a"}`}),
			modelSays(&llm.ToolCall{ID: "toolu_2", Namespace: "files", Name: "read", Input: `{"path":"b"}`}),
			{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "toolu_1", Content: llm.Parts{
				&llm.Text{Text: "an image"}, &llm.Media{MediaType: "image/png", Data: []byte("png")},
			}}}},
			hostSays("b has changed."),
			{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "toolu_2", IsError: true, Content: llm.Parts{&llm.Text{Text: "no such file"}}}}},
		}
	}
	tests := []struct {
		name   string
		p      Protocol
		change func(r *protocol.Request)
	}{
		{"text", Protocol{}, nil},
		{"tool-loop", Protocol{}, func(r *protocol.Request) { loop(r); thinkingModel(r, "high") }},
		{"tool-loop-notes", Protocol{}, func(r *protocol.Request) { loop(r); thinkingModel(r, "high"); r.Model.Compat.SystemUpdates = true }},
		{"tool-loop-budget", Protocol{}, func(r *protocol.Request) { loop(r); budgetModel(r, "medium"); r.ParallelToolCalls = false }},
		{"tool-loop-vertex", Protocol{Vertex: true}, func(r *protocol.Request) { loop(r); budgetModel(r, "low") }},
		{"options", Protocol{}, func(r *protocol.Request) {
			r.HostedTools = []string{"web_search", "code_execution"}
			r.ProviderOptions = options(`{"user_id":"u-1","cache_ttl":"1h","thinking":{"type":"adaptive","display":"summarized"},"speed":"fast",
				"container":{"skills":[{"type":"anthropic","skill_id":"pdf","version":"latest"}]},"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},
				"web_search":{"max_uses":3,"allowed_domains":["a.example"]}}`)
			r.Cache, r.System, r.ServiceTier = "auto", []string{"s"}, "auto"
			r.OutputSchema = []byte(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`)
			r.Generation.Stop, r.Generation.MaxTokens = []string{"END"}, ptr[int64](4096)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { protocoltest.Golden(t, tt.name, tt.p, request(tt.change)) })
	}
}
