package messages

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestDecodeHosted(t *testing.T) {
	stream, err := os.ReadFile("testdata/hosted.sse")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		`S+(model=claude-test id=msg_7)`,
		`R+reasoning-0 R~"Search first." R-@{"signature":"SIG+/="}`,
		`I+srvtoolu_1 web_search(hosted) I~"{\"query\": \"ga" I~"ntry <crane>\"}" I-@{"blockType":"server_tool_use"}`,
		`C srvtoolu_1 web_search(hosted) {"query": "gantry <crane>"}@{"blockType":"server_tool_use"}`,
		`X srvtoolu_1 web_search(hosted) "Gantry cranes https://a.example/1\nhttps://a.example/2"@{"blockType":"web_search_tool_result",` +
			`"fields":{"caller":{"type":"direct"}},"result":[{"type":"web_search_result","title":"Gantry cranes","url":"https://a.example/1",` +
			`"encrypted_content":"ENC1","page_age":null},{"type":"web_search_result","title":"","url":"https://a.example/2","encrypted_content":"ENC2","page_age":"2 days ago"}]}`,
		`I+srvtoolu_2 code_execution(hosted) I~"{\"code\":\"print(1)\"}" I-@{"blockType":"server_tool_use","fields":{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_9"}}}`,
		`C srvtoolu_2 code_execution(hosted) {"code":"print(1)"}@{"blockType":"server_tool_use","fields":{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_9"}}}`,
		`X srvtoolu_2 code_execution(hosted) "1"@{"blockType":"code_execution_tool_result","result":{"type":"code_execution_result","stdout":"1\n","stderr":"","return_code":0,"content":[]}}`,
		`I+srvtoolu_3 web_fetch(hosted) I~"{\"url\":\"https://b.example\"}" I-@{"blockType":"server_tool_use"}`,
		`C srvtoolu_3 web_fetch(hosted) {"url":"https://b.example"}@{"blockType":"server_tool_use"}`,
		`X! srvtoolu_3 web_fetch(hosted) "url_not_accessible"@{"blockType":"web_fetch_tool_result","result":{"type":"web_fetch_tool_result_error","error_code":"url_not_accessible"}}`,
		`T+text-7 T~"A gantry holds a crane." T-@{"citations":[{"type":"web_search_result_location","cited_text":"Cranes.","url":"https://a.example/1","title":"Gantry cranes","encrypted_index":"IDX1"}]}`,
		`SF(stop raw=end_turn) F(stop in=920 read=20 write=0 out=60 total=980)`,
	}, " ")
	if got := protocoltest.Splits(t, Protocol{}, request(nil), stream); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}

// TestPausedCallIsAnsweredLater takes up an answer that the vendor paused between a call of its own and the result.
func TestPausedCallIsAnsweredLater(t *testing.T) {
	first := sse(begins,
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}`,
		inputs("0", `{"query":"q"}`), stopsAt0, stopped("pause_turn"), ends)
	r := request(nil)
	r.Messages = append(r.Messages, *answered(t, r, first))
	body := lowered(t, r)
	if got, want := body.Messages[1:], `[{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"q"}}]}]`; !sameJSON(t, got, want) {
		t.Errorf("the paused answer goes back as %s, want %s and nothing behind it", encoded(t, got), want)
	}

	second := sse(begins, `{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}}`, stopsAt0,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Found."}}`, stopsAt1, endsTurn, ends)
	want := `S+ C srv_1 web_search(hosted) {"query":"q"}@{"blockType":"server_tool_use"} X srv_1 web_search(hosted)@{"blockType":"web_search_tool_result","result":[]} ` +
		`T+text-1 T~"Found." T- SF(stop raw=end_turn) F(stop in=5 out=2 total=7)`
	if got := protocoltest.Splits(t, Protocol{}, r, second); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}

	// The call stands in two answers now, and goes out once.
	r.Messages = append(r.Messages, *answered(t, r, second), userSays("thanks"))
	want = `[{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"q"}},` +
		`{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]},{"type":"text","text":"Found."}]}]`
	if got := lowered(t, r).Messages[1:2]; !sameJSON(t, got, want) {
		t.Errorf("the answers go back as %s, want %s", encoded(t, got), want)
	}
}

// TestResultOfAForgottenCall is the same after the history was cut.
func TestResultOfAForgottenCall(t *testing.T) {
	got := protocoltest.Run(t, Protocol{}, request(nil), sse(begins,
		`{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}}`, stopsAt0, endsTurn, ends))
	if want := `S+ C srv_1 web_search(hosted) {}@{"blockType":"server_tool_use"} X srv_1`; !strings.HasPrefix(got, want) {
		t.Errorf("events %s, want %s", got, want)
	}
}

func TestHostedPairs(t *testing.T) {
	meta := func(s string) llm.Metadata { return llm.Metadata{Namespace: json.RawMessage(s)} }
	call := func(id string) llm.Part {
		return &llm.ToolCall{ID: id, Name: "web_search", Input: `{"query":"q"}`, ProviderExecuted: true, Metadata: meta(`{"blockType":"server_tool_use"}`)}
	}
	result := func(id string) llm.Part {
		return &llm.ToolResult{ID: id, Name: "web_search", ProviderExecuted: true, Metadata: meta(`{"blockType":"web_search_tool_result","result":[],"fields":{"caller":{"type":"direct"}}}`)}
	}
	foreign := func(id string) []llm.Part {
		return []llm.Part{&llm.ToolCall{ID: id, Name: "web_search", Input: `{}`, ProviderExecuted: true},
			&llm.ToolResult{ID: id, ProviderExecuted: true, Content: llm.Parts{&llm.Text{Text: "found"}}}}
	}
	const wireCall = `{"id":"s1","input":{"query":"q"},"name":"web_search","type":"server_tool_use"}`
	const wireResult = `{"caller":{"type":"direct"},"content":[],"tool_use_id":"s1","type":"web_search_tool_result"}`
	local := &llm.ToolCall{ID: "t1", Name: "f", Input: `{}`}
	localResult := llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "t1", Content: llm.Parts{&llm.Text{Text: "ok"}}}}}
	tests := []struct {
		name     string
		messages []llm.Message
		want     string // of the assistant's turns
	}{
		{"a pair", []llm.Message{modelSays(call("s1"), result("s1")), userSays("x")}, `[[` + wireCall + `,` + wireResult + `]]`},
		{"a call that was never answered", []llm.Message{modelSays(&llm.Text{Text: "a"}, call("s1")), userSays("x")}, `[[{"type":"text","text":"a"}]]`},
		{"a result without its call", []llm.Message{modelSays(&llm.Text{Text: "a"}, result("s1")), userSays("x")}, `[[{"type":"text","text":"a"}]]`},
		{"a result that is there twice", []llm.Message{modelSays(call("s1"), result("s1"), result("s1")), userSays("x")}, `[[` + wireCall + `,` + wireResult + `]]`},
		{"a call to be answered next, beside one of ours", []llm.Message{modelSays(call("s1"), local), localResult},
			`[[` + wireCall + `,{"type":"tool_use","id":"t1","name":"f","input":{}}]]`},
		{"and answered", []llm.Message{modelSays(call("s1"), local), localResult, modelSays(result("s1")), userSays("x")},
			`[[` + wireCall + `,{"type":"tool_use","id":"t1","name":"f","input":{}}],[` + wireResult + `]]`},
		{"a call that was never answered although the model went on", []llm.Message{modelSays(call("s1"), local), localResult, modelSays(&llm.Text{Text: "a"})},
			`[[{"type":"tool_use","id":"t1","name":"f","input":{}}],[{"type":"text","text":"a"}]]`},
		{"another vendor's pair", []llm.Message{modelSays(append(foreign("s1"), &llm.Text{Text: "a"})...), userSays("x")}, `[[{"type":"text","text":"a"}]]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(nil)
			r.Messages = append(r.Messages, tt.messages...)
			got := []any{}
			for _, turn := range lowered(t, r).Messages {
				if turn["role"] == roleAssistant {
					got = append(got, turn["content"])
				}
			}
			if !sameJSON(t, got, tt.want) {
				t.Errorf("%s\nwant\n%s", encoded(t, got), tt.want)
			}
		})
	}
}

// TestCallersComeBack keeps what a call of ours says about who made it, unless it goes without saying.
func TestCallersComeBack(t *testing.T) {
	start := func(caller string) string {
		return `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{},"caller":` + caller + `}}`
	}
	for caller, want := range map[string]string{
		`{"type":"direct"}`: `{"type":"tool_use","id":"t1","name":"f","input":{}}`,
		`{"type":"code_execution_20260120","tool_id":"srv_1"}`: `{"type":"tool_use","id":"t1","name":"f","input":{},"caller":{"type":"code_execution_20260120","tool_id":"srv_1"}}`,
	} {
		r := request(nil)
		m := answered(t, r, sse(begins, start(caller), inputs("0", "{}"), stopsAt0, endsCalls, ends))
		r.Messages = append(r.Messages, *m, toolSays("t1", "ok"))
		if got := lowered(t, r).Messages[1]["content"].([]any)[0]; !sameJSON(t, got, want) {
			t.Errorf("caller %s: %s, want %s", caller, encoded(t, got), want)
		}
	}
}

func TestHostedText(t *testing.T) {
	tests := []struct {
		name, content, want string
		failed              bool
	}{
		{"places", `[{"title":"A","url":"u1"},{"url":"u2"},{"x":1}]`, "A u1\nu2", false},
		{"texts", `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "a\nb", false},
		{"a plain text", `"a"`, "a", false},
		{"what a program printed", `{"stdout":"out\n","stderr":"err\n","return_code":1}`, "out\nerr", false},
		{"a page", `{"type":"web_fetch_result","url":"u","content":{"type":"document","source":{"type":"text","media_type":"text/plain","data":"page"}}}`, "u\npage", false},
		{"a PDF", `{"type":"web_fetch_result","url":"u","content":{"type":"document","source":{"type":"base64","data":"JVBE"}}}`, "u", false},
		{"an error", `{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}`, "max_uses_exceeded", true},
		{"what nobody knows", `{"x":1}`, "", false},
		{"null", `null`, "", false},
		{"nothing", ``, "", false},
	}
	for _, tt := range tests {
		if got, failed := hostedText(json.RawMessage(tt.content)); got != tt.want || failed != tt.failed {
			t.Errorf("%s: %q, %v, want %q, %v", tt.name, got, failed, tt.want, tt.failed)
		}
	}
}

func TestHostedTools(t *testing.T) {
	tests := []struct {
		name    string
		kinds   []string
		options string
		want    string
		betas   string
	}{
		{"as they are", []string{"web_search", "code_execution"}, ``,
			`[{"name":"web_search","type":"web_search_20250305"},{"name":"code_execution","type":"code_execution_20250825"}]`, "code-execution-2025-08-25"},
		{"a version by name", []string{"web_search_20260209"}, ``, `[{"name":"web_search","type":"web_search_20260209"}]`, ""},
		{"settings and a version", []string{"web_fetch"}, `{"web_fetch":{"type":"web_fetch_20260209","max_uses":3}}`,
			`[{"max_uses":3,"name":"web_fetch","type":"web_fetch_20260209"}]`, ""},
		{"settings alone", []string{"web_fetch"}, `{"web_fetch":{"max_uses":3}}`, `[{"max_uses":3,"name":"web_fetch","type":"web_fetch_20250910"}]`, "web-fetch-2025-09-10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(func(r *protocol.Request) { r.HostedTools = tt.kinds; r.ProviderOptions = options(tt.options) })
			if got := lowered(t, r).Tools; !sameJSON(t, got, tt.want) {
				t.Errorf("tools %s, want %s", encoded(t, got), tt.want)
			}
			if got := strings.Join(Protocol{}.Betas(r), ","); got != tt.betas {
				t.Errorf("betas %q, want %q", got, tt.betas)
			}
		})
	}
	r := request(func(r *protocol.Request) { r.HostedTools = []string{"image_generation"} })
	if _, err := (Protocol{}).Body(r); err == nil || !strings.Contains(err.Error(), `"image_generation"`) {
		t.Errorf("a tool that the vendor does not run: %v", err)
	}
}
