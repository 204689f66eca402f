package ollama_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleUser, Parts: parts} }

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

func update(s string) llm.Message {
	return llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{text(s)}}
}

func result(id, name string, content ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: id, Name: name, Content: content}}}
}

func text(s string) *llm.Text { return &llm.Text{Text: s} }

func call(id, name, input string) *llm.ToolCall {
	return &llm.ToolCall{ID: id, Name: name, Input: input}
}

func thought(s string) *llm.Reasoning {
	return &llm.Reasoning{Text: s, Metadata: llm.Metadata{"ollama": json.RawMessage(`{"reasoningField":"thinking"}`)}}
}

// field is one field of the body, as it is sent.
func field(t *testing.T, r *protocol.Request, name string) string {
	t.Helper()
	body, err := ollama.Protocol{}.Body(r)
	if err != nil {
		t.Fatalf("body: %v", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatalf("body %s: %v", body, err)
	}
	return string(fields[name])
}

func wantJSON(t *testing.T, what, got, want string) {
	t.Helper()
	if want == "" {
		if got != "" {
			t.Errorf("%s = %s, want none", what, got)
		}
		return
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(want)); err != nil {
		t.Fatalf("wanted %s: %v", what, err)
	}
	if got != b.String() {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, b.String())
	}
}

func wantInvalid(t *testing.T, r *protocol.Request, message string) {
	t.Helper()
	body, err := ollama.Protocol{}.Body(r)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.ErrInvalidRequest || !strings.Contains(e.Message, message) {
		t.Errorf("body %s, error %v, want an invalid request: %q", body, err, message)
	}
}

// missing is what stands for a result that never came; its words are not ours.
var missing = regexp.MustCompile(`"content":"[^"]*is missing[^"]*"`)

func TestMessages(t *testing.T) {
	png := &llm.Media{MediaType: "image/png", Data: []byte("png")}
	tests := []struct {
		name string
		tell []llm.Message
		want string
	}{
		{"a question", []llm.Message{user(text("hi"))}, `[{"role":"user","content":"hi"}]`},
		{
			"texts and images of one message",
			[]llm.Message{user(text("a"), png, text("b"), &llm.Media{URL: "data:image/jpeg;base64,anBn"}, &llm.Media{MediaType: "text/plain", Data: []byte("c")})},
			`[{"role":"user","content":"a\n\nb\n\nc","images":["cG5n","anBn"]}]`,
		},
		{
			"an answer, one block a message",
			[]llm.Message{
				user(text("a")), assistant(thought("hm")), assistant(text("b")), assistant(call("c1", "f", `{"x":1}`)), assistant(call("c2", "g", "")),
				result("c1", "f", text("1"), text("2")), result("c2", "g"), assistant(text("c")),
			},
			`[{"role":"user","content":"a"},
			  {"role":"assistant","content":"b","thinking":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"x":1}}},{"id":"c2","function":{"name":"g","arguments":{}}}]},
			  {"role":"tool","content":"1\n2","tool_name":"f","tool_call_id":"c1"},{"role":"tool","content":"(no tool output)","tool_name":"g","tool_call_id":"c2"},
			  {"role":"assistant","content":"c"}]`,
		},
		{
			"thoughts of others stay away",
			[]llm.Message{
				user(text("a")), assistant(&llm.Reasoning{Text: "whose?"}),
				assistant(&llm.Reasoning{Text: "theirs", Metadata: llm.Metadata{"anthropic": json.RawMessage(`{"signature":"x"}`)}}), assistant(text("b")),
			},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`,
		},
		{
			"an answer of nothing but such thoughts",
			[]llm.Message{user(text("a")), assistant(&llm.Reasoning{Text: "whose?"}), user(text("b"))},
			`[{"role":"user","content":"a"},{"role":"user","content":"b"}]`,
		},
		{
			"images in results follow all of them",
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "{}"), call("c2", "g", "{}")), result("c1", "f", text("see"), png), result("c2", "g", text("2")), assistant(text("b")),
			},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{}}},{"id":"c2","function":{"name":"g","arguments":{}}}]},
			  {"role":"tool","content":"see","tool_name":"f","tool_call_id":"c1"},{"role":"tool","content":"2","tool_name":"g","tool_call_id":"c2"},
			  {"role":"user","content":"Images in the result of f:","images":["cG5n"]},{"role":"assistant","content":"b"}]`,
		},
		{
			"notes of the host",
			[]llm.Message{user(text("a")), update("use b"), assistant(call("c1", "f", "{}")), update("use c"), result("c1", "f", text("1"))},
			`[{"role":"user","content":"a\n\n<system-update>\nuse b\n</system-update>"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{}}}]},
			  {"role":"tool","content":"1","tool_name":"f","tool_call_id":"c1"},{"role":"user","content":"<system-update>\nuse c\n</system-update>"}]`,
		},
		{
			"a call without a result",
			[]llm.Message{user(text("a")), assistant(call("c1", "f", "{}")), user(text("b"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{}}}]},
			  {"role":"tool","content":"MISSING","tool_name":"f","tool_call_id":"c1"},{"role":"user","content":"b"}]`,
		},
		{
			"input that is no object, as others leave it",
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "[1]"), &llm.ToolCall{ID: "c2", Name: "patch", Input: "*** Begin", Freeform: true}),
				result("c1", "f", text("1")), result("c2", "patch", text("2")),
			},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"input":"[1]"}}},
			    {"id":"c2","function":{"name":"patch","arguments":{"patch":"*** Begin"}}}]},
			  {"role":"tool","content":"1","tool_name":"f","tool_call_id":"c1"},{"role":"tool","content":"2","tool_name":"patch","tool_call_id":"c2"}]`,
		},
		{
			"what hosted tools of other vendors did",
			[]llm.Message{user(text("a")), assistant(&llm.ToolCall{ID: "x", Name: "web_search", ProviderExecuted: true}, &llm.ToolResult{ID: "x", ProviderExecuted: true}, text("b"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`,
		},
		{
			"files that can't be shown",
			[]llm.Message{user(text("a"), &llm.Media{MediaType: "application/pdf", Data: []byte("x")}, &llm.Media{MediaType: "image/png", URL: "https://h/x.png"})},
			`[{"role":"user","content":"a\n\n(a document was left out: the model does not take it)\n\n(an image was left out: only its address is known, and Ollama does not download it)"}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.tell...)
			r.Tools = []llm.Tool{{Name: "patch", Freeform: &llm.Freeform{Property: "patch"}}}
			got := missing.ReplaceAllString(field(t, r, "messages"), `"content":"MISSING"`)
			wantJSON(t, "messages", got, tt.want)
		})
	}
}

func TestBadMessages(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message llm.Message
		want    string
	}{
		{"a stored file", user(&llm.Media{MediaType: "image/png", Artifact: "abc"}), "stored content"},
		{"a file without content", user(&llm.Media{MediaType: "image/png"}), "has no content"},
		{"a data URL that is no base64", user(&llm.Media{URL: "data:image/png;base64,?"}), "not in base64"},
		{"a call in a user's message", user(call("c", "f", "")), "user's message"},
		{"a text in a tool's message", llm.Message{Role: llm.RoleTool, Parts: []llm.Part{text("x")}}, "tool's message"},
		{"no role", llm.Message{Parts: []llm.Part{text("x")}}, "no role"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantInvalid(t, request(tt.message), tt.want) })
	}
}

func TestTools(t *testing.T) {
	r := request(user(text("hi")))
	r.Tools = []llm.Tool{
		{Name: "f", Description: "does f", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)},
		{Name: "g", Namespace: "ns", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		{Name: "patch", Freeform: &llm.Freeform{}},
	}
	const want = `[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}},
		{"type":"function","function":{"name":"ns__g","parameters":{"type":"object","properties":{}}}},
		{"type":"function","function":{"name":"patch","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}]`
	for mode, demanded := range map[string]bool{"": false, "auto": false, "required": true, "tool": true} {
		warned := false
		r.ToolChoice.Mode, r.Warn = mode, func(string) { warned = true }
		wantJSON(t, "tools", field(t, r, "tools"), want)
		if warned != demanded {
			t.Errorf("tool choice %q: warned is %v", mode, warned)
		}
	}
	r.ToolChoice.Mode = "none"
	wantJSON(t, "tools", field(t, r, "tools"), "")
}

func TestThink(t *testing.T) {
	degrees := protocol.Model{ID: "gpt-oss:20b", Reasons: true, Efforts: []string{"low", "medium", "high"}}
	few := protocol.Model{ID: "deepseek-v4-flash", Reasons: true, Efforts: []string{"high", "max"}}
	toggled := protocol.Model{ID: "x", Reasons: true, Efforts: []string{"none", "high"}}
	mute := protocol.Model{ID: "qwen3:8b", Reasons: true}
	plain := protocol.Model{ID: "llama3"}
	mapped := mute
	mapped.Compat.EffortMap = map[string]string{"max": "extreme", "low": "false"}
	tests := []struct {
		name   string
		model  protocol.Model
		effort string
		option string
		want   string
	}{
		{"a model of which nothing is known", plain, "", "", ""},
		{"an effort for it", plain, "high", "", ""},
		{"one that thinks", mute, "", "", "true"},
		{"on", mute, "low", "", "true"},
		{"off", mute, "none", "", "false"},
		{"a degree", degrees, "high", "", `"high"`},
		{"more than there is", degrees, "max", "", `"high"`},
		{"less than there is", degrees, "minimal", "", `"low"`},
		{"it can't be switched off", degrees, "none", "", `"low"`},
		{"rather a weaker one", few, "xhigh", "", `"high"`},
		{"off where that is a degree", toggled, "none", "", "false"},
		{"the vendor's own word", mapped, "max", "", `"extreme"`},
		{"a switch for a word", mapped, "low", "", "false"},
		{"an option wins", degrees, "low", `"high"`, `"high"`},
		{"an option alone", plain, "", "true", "true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(user(text("hi")))
			r.Model, r.ReasoningEffort = tt.model, tt.effort
			if tt.option != "" {
				r.ProviderOptions = map[string]json.RawMessage{"ollama": json.RawMessage(`{"think":` + tt.option + `}`)}
			}
			wantJSON(t, "think", field(t, r, "think"), tt.want)
		})
	}
	r := request(user(text("hi")))
	r.Model, r.ReasoningEffort = degrees, "heroic"
	wantInvalid(t, r, `no reasoning effort "heroic"`)
}

func TestOptions(t *testing.T) {
	r := request(user(text("hi")))
	wantJSON(t, "options", field(t, r, "options"), "")
	wantJSON(t, "truncate", field(t, r, "truncate"), "false")
	wantJSON(t, "shift", field(t, r, "shift"), "false")

	r.Namespace = "basement"
	r.ProviderOptions = map[string]json.RawMessage{
		"ollama":   json.RawMessage(`{"num_ctx":32768,"keep_alive":"10m","truncate":true,"shift":true,"repeat_penalty":1.1,"format":"json"}`),
		"basement": json.RawMessage(`{"num_ctx":65536,"num_gpu":99}`),
	}
	r.Generation = llm.Generation{
		MaxTokens: new(int64(100)), Temperature: new(0.5), TopP: new(0.9), TopK: new(int64(40)), FrequencyPenalty: new(0.1),
		PresencePenalty: new(0.2), Seed: new(int64(7)), Stop: []string{"END"},
	}
	r.OutputSchema = json.RawMessage(`{"type":"object"}`)
	wantJSON(t, "options", field(t, r, "options"), `{"num_ctx":65536,"num_gpu":99,"repeat_penalty":1.1,"num_predict":100,"temperature":0.5,
		"top_p":0.9,"top_k":40,"frequency_penalty":0.1,"presence_penalty":0.2,"seed":7,"stop":["END"]}`)
	wantJSON(t, "keep_alive", field(t, r, "keep_alive"), `"10m"`)
	wantJSON(t, "truncate", field(t, r, "truncate"), "true")
	wantJSON(t, "shift", field(t, r, "shift"), "true")
	wantJSON(t, "format", field(t, r, "format"), `"json"`)
	r.ProviderOptions = nil
	wantJSON(t, "format", field(t, r, "format"), `{"type":"object"}`)

	for options, want := range map[string]string{
		`{"num_context":1}`:    `unknown key "num_context"; did you mean "num_ctx"?`,
		`{"num_ctx":0}`:        "num_ctx is 0",
		`{"think":1}`:          "think is 1",
		`{"keep_alive":true}`:  "keep_alive is true",
		`{"format":["json"]}`:  `format is ["json"]`,
		`{"num_ctx":"plenty"}`: "num_ctx",
		`[]`:                   "provider options",
	} {
		r.ProviderOptions = map[string]json.RawMessage{"ollama": json.RawMessage(options)}
		wantInvalid(t, r, want)
	}
}

func TestHostedToolsAreLeftOut(t *testing.T) {
	r := request(user(text("hi")))
	r.HostedTools = []string{"web_search"}
	var warning string
	r.Warn = func(s string) { warning = s }
	wantJSON(t, "tools", field(t, r, "tools"), "")
	if !strings.Contains(warning, "web_search") {
		t.Errorf("warning = %q, want one about web_search", warning)
	}
}

func TestGoldenBody(t *testing.T) {
	r := request(
		user(text("What is in the picture? <b>"), &llm.Media{MediaType: "image/png", Data: []byte("png")}),
		assistant(thought("look")), assistant(text("I look.")),
		assistant(&llm.ToolCall{ID: "c1", Name: "read", Namespace: "files", Input: `{"path":"a"}`}), assistant(call("c2", "list", "{}")),
		llm.Message{Role: llm.RoleTool, Parts: []llm.Part{
			&llm.ToolResult{ID: "c1", Name: "read", Namespace: "files", Content: llm.Parts{text("one"), &llm.Media{MediaType: "image/webp", Data: []byte("webp")}}},
			&llm.ToolResult{ID: "c2", Name: "list", IsError: true, Content: llm.Parts{text("no such folder")}},
		}},
		update("The folder is called <b>."), user(text("Go on.")),
	)
	r.Model.Reasons = true
	r.System = []string{"You are a helper.", "Be brief."}
	r.Tools = []llm.Tool{
		{Name: "read", Namespace: "files", Description: "Reads a file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		{Name: "list", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}
	r.Generation = llm.Generation{MaxTokens: new(int64(4096)), Temperature: new(0.5)}
	r.ProviderOptions = map[string]json.RawMessage{"ollama": json.RawMessage(`{"num_ctx":32768,"keep_alive":-1}`)}
	r.OutputSchema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)
	protocoltest.Golden(t, "chat", ollama.Protocol{}, r)
}

// What the model thought, said and called goes back as it came.
func TestAnswersGoBack(t *testing.T) {
	r := request(user(text("hi")))
	var fold llm.Fold
	for _, e := range protocoltest.Events(t, ollama.Protocol{}, r, stream(
		says(`"content":"","thinking":"hm"`), says(`"content":"I "`), says(`"content":"look."`),
		says(`"content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"x":1.50}}},{"function":{"name":"g","arguments":"{}"}}]`), ends("stop"),
	)) {
		fold.Add(e)
	}
	for _, p := range fold.Message().Parts {
		r.Messages = append(r.Messages, assistant(p))
	}
	r.Messages = append(r.Messages, result("c1", "f", text("1")), result("call_1", "g", text("2")))
	wantJSON(t, "messages", field(t, r, "messages"), `[{"role":"user","content":"hi"},
		{"role":"assistant","content":"I look.","thinking":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"x":1.50}}},{"id":"call_1","function":{"name":"g","arguments":{}}}]},
		{"role":"tool","content":"1","tool_name":"f","tool_call_id":"c1"},{"role":"tool","content":"2","tool_name":"g","tool_call_id":"call_1"}]`)
}
