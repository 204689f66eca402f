package chat

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func say(text string) llm.Message { return of(llm.RoleUser, &llm.Text{Text: text}) }

func of(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

func call(id, name, input string) *llm.ToolCall {
	return &llm.ToolCall{ID: id, Name: name, Input: input}
}

func result(id string, content ...llm.Part) *llm.ToolResult {
	return &llm.ToolResult{ID: id, Content: content}
}

func text(s string) *llm.Text { return &llm.Text{Text: s} }

func image() *llm.Media { return &llm.Media{MediaType: "image/png", Data: []byte("png")} }

// thought is reasoning with what the vendor gave along.
func thought(s, meta string) *llm.Reasoning {
	return &llm.Reasoning{Text: s, Metadata: llm.Metadata{"acme": json.RawMessage(meta)}}
}

func number[T any](n T) *T { return &n }

// sent is a body's field as it is on the wire; empty when it is not there.
func sent(t *testing.T, r *protocol.Request, name string) string {
	t.Helper()
	raw, err := Protocol{}.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	list, err := fields(raw)
	if err != nil {
		t.Fatalf("the body is no object: %v\n%s", err, raw)
	}
	for _, f := range list {
		if f.name == name {
			return string(f.value)
		}
	}
	return ""
}

func TestMessages(t *testing.T) {
	const png = `{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}`
	two := of(llm.RoleAssistant, call("c1", "f", `{"a":1}`), call("c2", "g", `{}`))
	const twoSent = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},` +
		`{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]}`
	one := of(llm.RoleAssistant, call("c1", "f", `{}`))
	const oneSent = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	field := func(name string) protocol.Compat { return protocol.Compat{ReasoningField: name} }
	require := protocol.Compat{ReasoningField: "reasoning_content", RequireReasoning: true}
	tests := []struct {
		name     string
		compat   protocol.Compat
		system   []string
		messages []llm.Message
		want     string
	}{
		{
			name: "system texts are one message", system: []string{"a", "b"}, messages: []llm.Message{say("hi")},
			want: `{"role":"system","content":"a\nb"},{"role":"user","content":"hi"}`,
		},
		{
			name: "a note before anybody spoke", system: []string{"a"},
			messages: []llm.Message{of(llm.RoleSystem, text("b")), say("hi")},
			want:     `{"role":"system","content":"a"},{"role":"user","content":"<system-update>\nb\n</system-update>\n\nhi"}`,
		},
		{
			name:     "several texts of the user are one",
			messages: []llm.Message{of(llm.RoleUser, text("a"), text("b"))},
			want:     `{"role":"user","content":"a\nb"}`,
		},
		{
			name:     "an image of the user",
			messages: []llm.Message{of(llm.RoleUser, text("see"), image(), &llm.Media{MediaType: "image/jpeg", URL: "https://x/y.jpg", Detail: "original"})},
			want: `{"role":"user","content":[{"type":"text","text":"see"},` + png +
				`,{"type":"image_url","image_url":{"url":"https://x/y.jpg","detail":"high"}}]}`,
		},
		{
			name: "a document and a recording",
			messages: []llm.Message{of(llm.RoleUser, &llm.Media{MediaType: "application/pdf", Data: []byte("pdf"), Filename: "a.pdf"},
				&llm.Media{MediaType: "application/pdf", Data: []byte("pdf")}, &llm.Media{MediaType: "audio/wav", Data: []byte("wav")})},
			want: `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,cGRm"}},` +
				`{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,cGRm"}},` +
				`{"type":"input_audio","input_audio":{"data":"d2F2","format":"wav"}}]}`,
		},
		{
			name: "what the model does not take becomes a note", compat: protocol.Compat{NoImages: true},
			messages: []llm.Message{of(llm.RoleUser, text("see"), image(), &llm.Media{MediaType: "video/mp4", Data: []byte("x"), Filename: "v.mp4"})},
			want:     `{"role":"user","content":"see\n(an image was left out: the model does not take it)\n(a video \"v.mp4\" was left out: the model does not take it)"}`,
		},
		{
			name:     "an assistant's texts follow each other",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, text("a"), text("b"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"ab"}`,
		},
		{
			name:     "an assistant with nothing but a call",
			messages: []llm.Message{one, of(llm.RoleTool, result("c1", text("ok")))},
			want:     oneSent + `,{"role":"tool","content":"ok","tool_call_id":"c1"}`,
		},
		{
			name:     "parts of one answer that a thread keeps as messages of their own",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, call("c1", "f", `{"a":1}`)), of(llm.RoleAssistant, call("c2", "g", `{}`)), of(llm.RoleTool, result("c1", text("1"))), of(llm.RoleTool, result("c2", text("2")))},
			want:     `{"role":"user","content":"hi"},` + twoSent + `,{"role":"tool","content":"1","tool_call_id":"c1"},{"role":"tool","content":"2","tool_call_id":"c2"}`,
		},
		{
			name:     "an assistant with white space alone is left out",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, text(" \n")), say("ho")},
			want:     `{"role":"user","content":"hi\n\nho"}`,
		},
		{
			name:     "white space beside a call is no text",
			messages: []llm.Message{of(llm.RoleAssistant, text("\n\n"), call("c1", "f", `{}`)), of(llm.RoleTool, result("c1", text("ok")))},
			want:     oneSent + `,{"role":"tool","content":"ok","tool_call_id":"c1"}`,
		},
		{
			name:     "arguments that are no JSON",
			messages: []llm.Message{of(llm.RoleAssistant, call("c1", "f", `{"a":`)), of(llm.RoleTool, result("c1", text("no")))},
			want: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"invalid_arguments\":\"{\\\"a\\\":\"}"}}]},` +
				`{"role":"tool","content":"no","tool_call_id":"c1"}`,
		},
		{
			name: "text of a freeform call", messages: []llm.Message{of(llm.RoleAssistant, &llm.ToolCall{ID: "c1", Name: "patch", Input: "*** <Begin>", Freeform: true}), of(llm.RoleTool, result("c1", text("ok")))},
			want: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"patch","arguments":"{\"diff\":\"*** <Begin>\"}"}}]},` +
				`{"role":"tool","content":"ok","tool_call_id":"c1"}`,
		},
		{
			name: "calls of a tool with a namespace", messages: []llm.Message{of(llm.RoleAssistant, &llm.ToolCall{ID: "c1", Namespace: "git", Name: "log", Input: "{}"}), of(llm.RoleTool, result("c1", text("ok")))},
			want: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"git__log","arguments":"{}"}}]},{"role":"tool","content":"ok","tool_call_id":"c1"}`,
		},
		{
			name:     "texts of a result are joined, images come after all results",
			messages: []llm.Message{two, of(llm.RoleTool, result("c1", text("a"), image(), text("b"))), of(llm.RoleTool, result("c2", image())), say("and?")},
			want: twoSent + `,{"role":"tool","content":"a\nb","tool_call_id":"c1"},{"role":"tool","content":"(the output is attached to the next message)","tool_call_id":"c2"},` +
				`{"role":"user","content":[` + png + `,` + png + `,{"type":"text","text":"and?"}]}`,
		},
		{
			name: "images of results that can't be shown", compat: protocol.Compat{NoImages: true},
			messages: []llm.Message{one, of(llm.RoleTool, result("c1", image()))},
			want:     oneSent + `,{"role":"tool","content":"(an image was left out: the model does not take it)","tool_call_id":"c1"}`,
		},
		{
			name:     "a call without a result before the user speaks",
			messages: []llm.Message{one, say("stop")},
			want: oneSent + `,{"role":"tool","content":"The result of this call is missing: the call ended before it could be recorded.","tool_call_id":"c1"},` +
				`{"role":"user","content":"stop"}`,
		},
		{
			name:     "calls and results of the vendor stay out",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, &llm.ToolCall{ID: "w1", Name: "web_search", Input: "{}", ProviderExecuted: true}, &llm.ToolResult{ID: "w1", ProviderExecuted: true}, text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a"}`,
		},
		{
			name:     "a note of the host joins the user's words",
			messages: []llm.Message{say("hi"), of(llm.RoleSystem, text("use <b>"))},
			want:     `{"role":"user","content":"hi\n<system-update>\nuse &lt;b&gt;\n</system-update>"}`,
		},
		{
			name:     "a note after an image",
			messages: []llm.Message{of(llm.RoleUser, image()), of(llm.RoleSystem, text("x"))},
			want:     `{"role":"user","content":[` + png + `,{"type":"text","text":"<system-update>\nx\n</system-update>"}]}`,
		},
		{
			name:     "a note after an answer and after results",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, text("a")), of(llm.RoleSystem, text("x")), one, of(llm.RoleTool, result("c1", image())), of(llm.RoleSystem, text("y"))},
			want: `{"role":"user","content":"hi"},{"role":"assistant","content":"a"},{"role":"user","content":"<system-update>\nx\n</system-update>"},` + oneSent +
				`,{"role":"tool","content":"(the output is attached to the next message)","tool_call_id":"c1"},` +
				`{"role":"user","content":[` + png + `,{"type":"text","text":"<system-update>\ny\n</system-update>"}]}`,
		},
		{
			name: "a note between results waits for the last of them",
			messages: []llm.Message{two, of(llm.RoleTool, result("c1", text("1"))), of(llm.RoleSystem, text("x")),
				of(llm.RoleTool, result("c2", text("2")))},
			want: twoSent + `,{"role":"tool","content":"1","tool_call_id":"c1"},{"role":"tool","content":"2","tool_call_id":"c2"},` +
				`{"role":"user","content":"<system-update>\nx\n</system-update>"}`,
		},
		{
			name: "the assistant speaks between results and the user", compat: protocol.Compat{AssistantAfterTool: true, ToolCallIDs: "mistral"},
			messages: []llm.Message{of(llm.RoleAssistant, call("call_abc-123456", "f", `{}`)), of(llm.RoleTool, result("call_abc-123456", image())), say("and?")},
			want: `{"role":"assistant","content":null,"tool_calls":[{"id":"callabc12","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","content":"(the output is attached to the next message)","tool_call_id":"callabc12"},{"role":"assistant","content":"Done."},` +
				`{"role":"user","content":[` + png + `,{"type":"text","text":"and?"}]}`,
		},
		{
			name:     "reasoning goes back in the field it came in",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"reasoningField":"reasoning","model":"m"}`), text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning":"hm"}`,
		},
		{
			name: "or in the configured one", compat: field("reasoning_text"),
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"reasoningField":"reasoning"}`), text("a")), say("ho"), of(llm.RoleAssistant, text("b"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_text":"hm"},{"role":"user","content":"ho"},{"role":"assistant","content":"b"}`,
		},
		{
			name: "of an unusual name", compat: field("thoughts"),
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, &llm.Reasoning{Text: "<hm>"}, text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a","thoughts":"<hm>"}`,
		},
		{
			name: "or among the parts of the content", compat: field("content"),
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"reasoningField":"content"}`), text("a")), say("ho"), of(llm.RoleAssistant, text("b"))},
			want: `{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true},` +
				`{"type":"text","text":"a"}]},{"role":"user","content":"ho"},{"role":"assistant","content":"b"}`,
		},
		{
			name:     "reasoning that came in no field stays here",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, &llm.Reasoning{Text: "hm"}, text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a"}`,
		},
		{
			name:     "reasoning of another vendor stays here",
			compat:   field("reasoning"),
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, &llm.Reasoning{Text: "hm", Metadata: llm.Metadata{"other": json.RawMessage(`{"signature":"s"}`)}}, text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a"}`,
		},
		{
			name: "where it is required each message has the field", compat: require,
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, text("a")), say("ho"), one, of(llm.RoleTool, result("c1", text("ok")))},
			want: `{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_content":""},{"role":"user","content":"ho"},` +
				strings.Replace(oneSent, `"content":null,`, `"content":null,"reasoning_content":"",`, 1) + `,{"role":"tool","content":"ok","tool_call_id":"c1"}`,
		},
		{
			name:     "an answer that was cut off while the model was thinking",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"reasoningField":"reasoning"}`)), say("ho")},
			want:     `{"role":"user","content":"hi\n\nho"}`,
		},
		{
			name: "the same where reasoning is required", compat: require,
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"reasoningField":"reasoning_content"}`)), say("ho")},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"","reasoning_content":"hm"},{"role":"user","content":"ho"}`,
		},
		{
			name: "entries go back as they came",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant,
				thought("hm", `{"model":"m","reasoningDetails":[{"index":0,"signature":"s","text":"hm","type":"reasoning.text"},{"data":"<E>","index":1,"type":"reasoning.encrypted"}],"reasoningField":"reasoning"}`), text("a"))},
			want: `{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning":"hm","reasoning_details":[{"index":0,"signature":"s","text":"hm","type":"reasoning.text"},` +
				`{"data":"<E>","index":1,"type":"reasoning.encrypted"}]}`,
		},
		{
			name: "entries alone where the text belongs to them", compat: field("reasoning_details"),
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"reasoningDetails":[{"text":"hm","type":"reasoning.text"}]}`), text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_details":[{"text":"hm","type":"reasoning.text"}]}`,
		},
		{
			name:     "entries of another family of models stay here",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("hm", `{"model":"other","reasoningDetails":[{"text":"hm","type":"reasoning.text"}],"reasoningField":"reasoning"}`), text("a"))},
			want:     `{"role":"user","content":"hi"},{"role":"assistant","content":"a"}`,
		},
		{
			name:     "types without a prefix go back without their place, and with the text",
			messages: []llm.Message{say("hi"), of(llm.RoleAssistant, thought("s", `{"reasoningDetails":[{"index":0,"summary":"s","type":"summary"},{"encrypted":"E","index":1,"type":"encrypted"}]}`), text("a"))},
			want: `{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_content":"s","reasoning_details":[{"summary":"s","type":"summary"},` +
				`{"encrypted":"E","type":"encrypted"}]}`,
		},
		{
			name: "a call's signature goes back with it",
			messages: []llm.Message{of(llm.RoleAssistant, &llm.ToolCall{ID: "c1", Name: "f", Input: "{}",
				Metadata: llm.Metadata{"acme": json.RawMessage(`{"extraContent":{"google":{"thought_signature":"s"}},"model":"m"}`)}}), of(llm.RoleTool, result("c1", text("ok")))},
			want: `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]},` +
				`{"role":"tool","content":"ok","tool_call_id":"c1"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := asked(tt.compat, llm.Tool{Name: "patch", Freeform: &llm.Freeform{Property: "diff"}})
			r.System, r.Messages = tt.system, tt.messages
			if got := sent(t, r, "messages"); got != "["+tt.want+"]" {
				t.Errorf("messages\n%s\nwant\n[%s]", got, tt.want)
			}
		})
	}
}

func TestFields(t *testing.T) {
	tool := llm.Tool{Name: "f", Description: "does <f>", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
	const toolSent = `[{"type":"function","function":{"name":"f","description":"does <f>","parameters":{"type":"object","properties":{}},"strict":false}}]`
	long := strings.Repeat("é", 70)
	tests := []struct {
		name  string
		req   func(r *protocol.Request)
		field string
		want  string // empty: the field is not sent
	}{
		{"the model's id", func(*protocol.Request) {}, "model", `"m"`},
		{"answers are streamed", func(*protocol.Request) {}, "stream", `true`},
		{"with usage", func(*protocol.Request) {}, "stream_options", `{"include_usage":true}`},
		{"without usage", func(r *protocol.Request) { r.Model.Compat.NoStreamUsage = true }, "stream_options", ``},
		{"nothing is stored", func(r *protocol.Request) { r.Model.Compat.Store = true }, "store", `false`},
		{"nothing is said of storing", func(*protocol.Request) {}, "store", ``},

		{"no tools", func(*protocol.Request) {}, "tools", ``},
		{"tools", func(r *protocol.Request) { r.Tools = []llm.Tool{tool} }, "tools", toolSent},
		{
			"strict is not known", func(r *protocol.Request) { r.Tools, r.Model.Compat.NoStrict = []llm.Tool{tool}, true }, "tools",
			strings.Replace(toolSent, `,"strict":false`, ``, 1),
		},
		{
			"a strict tool without a schema, in a namespace", func(r *protocol.Request) { r.Tools = []llm.Tool{{Namespace: "n", Name: "g", Strict: true}} }, "tools",
			`[{"type":"function","function":{"name":"n__g","parameters":{"type":"object","properties":{}},"strict":true}}]`,
		},
		{
			"a freeform tool", func(r *protocol.Request) {
				r.Tools = []llm.Tool{{Name: "p", Freeform: &llm.Freeform{Syntax: "lark", Definition: "start: X", Property: "diff"}}}
			}, "tools",
			`[{"type":"function","function":{"name":"p","parameters":{"type":"object","properties":{"diff":{"type":"string","description":"Text that follows this lark grammar:\nstart: X"}},` +
				`"required":["diff"],"additionalProperties":false},"strict":false}}]`,
		},
		{
			"a freeform tool without a grammar or a name for its text", func(r *protocol.Request) { r.Tools = []llm.Tool{{Name: "p", Freeform: &llm.Freeform{}}} }, "tools",
			`[{"type":"function","function":{"name":"p","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false},"strict":false}}]`,
		},
		{
			"the last of tools with one name", func(r *protocol.Request) { r.Tools = []llm.Tool{{Name: "f"}, tool} }, "tools", toolSent,
		},
		{
			"a history of calls, and no tools", func(r *protocol.Request) {
				r.Messages = []llm.Message{of(llm.RoleAssistant, call("c1", "f", "{}")), of(llm.RoleTool, result("c1", text("ok")))}
				r.ToolChoice.Mode = "auto"
			}, "tools", `[]`,
		},
		{
			"a history of calls, and no tools, where a list of nothing is refused", func(r *protocol.Request) {
				r.Messages = []llm.Message{of(llm.RoleAssistant, call("c1", "f", "{}")), of(llm.RoleTool, result("c1", text("ok")))}
				r.Model.Compat.NoEmptyTools = true
			}, "tools", ``,
		},
		{
			"a choice without tools", func(r *protocol.Request) {
				r.Messages = []llm.Message{of(llm.RoleAssistant, call("c1", "f", "{}")), of(llm.RoleTool, result("c1", text("ok")))}
				r.ToolChoice.Mode = "auto"
			}, "tool_choice", ``,
		},
		{"no choice", func(r *protocol.Request) { r.Tools = []llm.Tool{tool} }, "tool_choice", ``},
		{"a choice", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{tool}, "required" }, "tool_choice", `"required"`},
		{
			"one tool is chosen", func(r *protocol.Request) {
				r.Tools, r.ToolChoice = []llm.Tool{{Namespace: "n", Name: "g"}}, llm.ToolChoice{Mode: "tool", Name: "g"}
			}, "tool_choice", `{"type":"function","function":{"name":"n__g"}}`,
		},
		{"calls side by side", func(r *protocol.Request) { r.Tools, r.ParallelToolCalls = []llm.Tool{tool}, true }, "parallel_tool_calls", `true`},
		{"nothing is said of calls side by side", func(r *protocol.Request) { r.Tools = []llm.Tool{tool} }, "parallel_tool_calls", ``},
		{
			"the vendor knows nothing of calls side by side", func(r *protocol.Request) {
				r.Tools, r.ParallelToolCalls, r.Model.Compat.NoParallelTools = []llm.Tool{tool}, true, true
			}, "parallel_tool_calls", ``,
		},
		{"streamed calls", func(r *protocol.Request) { r.Tools, r.Model.Compat.ToolStream = []llm.Tool{tool}, true }, "tool_stream", `true`},
		{"streamed calls, but no tools", func(r *protocol.Request) { r.Model.Compat.ToolStream = true }, "tool_stream", ``},

		{"a limit", func(r *protocol.Request) { r.Generation.MaxTokens = number[int64](9) }, "max_completion_tokens", `9`},
		{
			"a limit under its old name", func(r *protocol.Request) {
				r.Generation.MaxTokens, r.Model.Compat.MaxTokensField = number[int64](9), "max_tokens"
			}, "max_tokens", `9`,
		},
		{"temperature 0 is a temperature", func(r *protocol.Request) { r.Generation.Temperature = number(0.0) }, "temperature", `0`},
		{"top p", func(r *protocol.Request) { r.Generation.TopP = number(0.5) }, "top_p", `0.5`},
		{"penalties", func(r *protocol.Request) { r.Generation.FrequencyPenalty = number(0.1) }, "frequency_penalty", `0.1`},
		{"penalties", func(r *protocol.Request) { r.Generation.PresencePenalty = number(-0.1) }, "presence_penalty", `-0.1`},
		{"seed", func(r *protocol.Request) { r.Generation.Seed = number[int64](7) }, "seed", `7`},
		{"a seed of another name", func(r *protocol.Request) { r.Generation.Seed, r.Model.Compat.RandomSeed = number[int64](7), true }, "random_seed", `7`},
		{"stop", func(r *protocol.Request) { r.Generation.Stop = []string{"</x>"} }, "stop", `["</x>"]`},
		{"top k is not a field", func(r *protocol.Request) { r.Generation.TopK = number[int64](7) }, "top_k", ``},
		{"service tier", func(r *protocol.Request) { r.ServiceTier = "flex" }, "service_tier", `"flex"`},

		{"a cache key where it is not taken", func(r *protocol.Request) { r.PromptCacheKey = "k" }, "prompt_cache_key", ``},
		{"a cache key", func(r *protocol.Request) { r.PromptCacheKey, r.Model.Compat.PromptCacheKey = "k", true }, "prompt_cache_key", `"k"`},
		{
			"a long cache key", func(r *protocol.Request) { r.PromptCacheKey, r.Model.Compat.PromptCacheKey = long, true }, "prompt_cache_key",
			`"` + strings.Repeat("é", 64) + `"`,
		},
		{
			"a cache key, and no cache", func(r *protocol.Request) {
				r.PromptCacheKey, r.Model.Compat.PromptCacheKey, r.Cache = "k", true, "none"
			},
			"prompt_cache_key", ``,
		},
		{
			"a cache key of another name", func(r *protocol.Request) {
				r.PromptCacheKey, r.Model.Compat.PromptCacheKey, r.Model.Compat.CacheIsolationKey = "k", true, true
			}, "prompt_cache_isolation_key", `"k"`,
		},
		{
			"a form of the answer", func(r *protocol.Request) {
				r.OutputSchema, r.OutputSchemaName = json.RawMessage(`{"type":"object"}`), "x"
			}, "response_format",
			`{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}}`,
		},
		{
			"a form without a name, where strict is not known", func(r *protocol.Request) { r.OutputSchema, r.Model.Compat.NoStrict = json.RawMessage(`{}`), true }, "response_format",
			`{"type":"json_schema","json_schema":{"name":"answer","schema":{}}}`,
		},

		{"an effort", func(r *protocol.Request) { r.ReasoningEffort = "high" }, "reasoning_effort", `"high"`},
		{
			"an effort in the vendor's words", func(r *protocol.Request) {
				r.ReasoningEffort, r.Model.Compat.EffortMap = "minimal", map[string]string{"minimal": "low"}
				r.Model.Efforts = []string{"low", "high"}
			}, "reasoning_effort", `"low"`,
		},
		{"an effort that the model does not take", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Efforts = "max", []string{"low"} }, "reasoning_effort", ``},
		{"an effort of a model that does not reason", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Reasons = "low", false }, "reasoning_effort", ``},
		{"efforts are no field here", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Compat.EffortField = "low", "none" }, "reasoning_effort", ``},
		{"an effort in an object", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Compat.EffortField = "none", "reasoning" }, "reasoning", `{"effort":"none"}`},
		{"thinking is switched on", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Compat.EffortField = "high", "thinking" }, "thinking", `{"type":"enabled"}`},
		{"a switch has no degrees", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Compat.EffortField = "high", "thinking" }, "reasoning_effort", ``},
		{
			"a switch with degrees", func(r *protocol.Request) {
				r.ReasoningEffort, r.Model.Compat.EffortField, r.Model.Compat.EffortMap = "medium", "thinking", map[string]string{"medium": "high"}
			}, "reasoning_effort", `"high"`,
		},
		{
			"thinking is switched off", func(r *protocol.Request) {
				r.ReasoningEffort, r.Model.Compat.EffortField, r.Model.Efforts = "none", "thinking", []string{"low"}
			}, "thinking", `{"type":"disabled"}`,
		},
		{
			"a switch that there is not", func(r *protocol.Request) {
				r.ReasoningEffort, r.Model.Compat.EffortField, r.Model.AlwaysThinks = "none", "thinking", true
			}, "thinking", ``,
		},
		{"nothing is said of effort", func(r *protocol.Request) { r.Model.Compat.EffortField = "thinking" }, "thinking", ``},

		{
			"what the vendor wants in each body", func(r *protocol.Request) { r.Model.Compat.Body = json.RawMessage(`{"usage":{"include":true}}`) }, "usage",
			`{"include":true}`,
		},
		{
			"options go over it", func(r *protocol.Request) {
				r.Model.Compat.Body = json.RawMessage(`{"provider":{"a":1,"b":[1]}}`)
				r.ProviderOptions = map[string]json.RawMessage{"acme": json.RawMessage(`{"provider":{"b":[2],"c":3}}`), "other": json.RawMessage(`{"provider":0}`)}
			}, "provider", `{"a":1,"b":[2],"c":3}`,
		},
		{
			"an option that is null takes a field out", func(r *protocol.Request) {
				r.ProviderOptions = map[string]json.RawMessage{"acme": json.RawMessage(`{"stream_options":null}`)}
			}, "stream_options", ``,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := asked(protocol.Compat{})
			tt.req(r)
			if got := sent(t, r, tt.field); got != tt.want {
				t.Errorf("%s = %s, want %s", tt.field, got, tt.want)
			}
		})
	}
}

func TestCacheMarks(t *testing.T) {
	tool := llm.Tool{Name: "f", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
	const mark = `,"cache_control":{"type":"ephemeral"}`
	request := func(c protocol.Compat, messages ...llm.Message) *protocol.Request {
		c.InlineCache, c.NoStrict = true, true
		r := asked(c, llm.Tool{Name: "e"}, tool)
		r.System, r.Messages = []string{"a", "b", "c"}, messages
		return r
	}
	const system = `{"role":"system","content":[{"type":"text","text":"a"` + mark + `},{"type":"text","text":"b"},{"type":"text","text":"c"` + mark + `}]},`
	calls := of(llm.RoleAssistant, call("c1", "f", "{}"))
	const callsSent = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	tests := []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"the user spoke last", []llm.Message{say("x"), say("hi")}, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"hi"` + mark + `}]}`},
		{
			"the text of a message with an image", []llm.Message{of(llm.RoleUser, text("hi"), &llm.Media{MediaType: "image/png", URL: "u"})},
			`{"role":"user","content":[{"type":"text","text":"hi"` + mark + `},{"type":"image_url","image_url":{"url":"u"}}]}`,
		},
		{
			"an image alone", []llm.Message{of(llm.RoleUser, &llm.Media{MediaType: "image/png", URL: "u"})},
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}` + mark + `}]}`,
		},
		{"an answer came last", []llm.Message{say("hi"), of(llm.RoleAssistant, text("a"))}, `{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"` + mark + `}]}`},
		{"a result came last", []llm.Message{calls, of(llm.RoleTool, result("c1", text("ok")))}, callsSent + `,{"role":"tool","content":[{"type":"text","text":"ok"` + mark + `}],"tool_call_id":"c1"}`},
		{
			"a note came last", []llm.Message{say("hi"), of(llm.RoleSystem, text("x"))},
			`{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"<system-update>\nx\n</system-update>"` + mark + `}]}`,
		},
		{
			"a note came last, after an answer", []llm.Message{say("hi"), of(llm.RoleAssistant, text("a")), of(llm.RoleSystem, text("x"))},
			`{"role":"user","content":[{"type":"text","text":"hi"` + mark + `}]},{"role":"assistant","content":"a"},{"role":"user","content":[{"type":"text","text":"<system-update>\nx\n</system-update>"` + mark + `}]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sent(t, request(protocol.Compat{}, tt.messages...), "messages"); got != "["+system+tt.want+"]" {
				t.Errorf("messages\n%s\nwant\n[%s%s]", got, system, tt.want)
			}
		})
	}

	const e, f = `{"type":"function","function":{"name":"e","parameters":{"type":"object","properties":{}}}}`, `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}`
	if got, want := sent(t, request(protocol.Compat{}, say("hi")), "tools"), "["+e+","+f+"}]"; got != want {
		t.Errorf("tools before a system text that is marked: %s, want %s", got, want)
	}
	bare := func(c protocol.Compat) *protocol.Request {
		r := request(c, say("hi"))
		r.System = nil
		return r
	}
	if got, want := sent(t, bare(protocol.Compat{}), "tools"), "["+e+","+f+mark+"}]"; got != want {
		t.Errorf("tools %s, want %s", got, want)
	}
	if got, want := sent(t, bare(protocol.Compat{NoToolCache: true}), "tools"), "["+e+","+f+"}]"; got != want {
		t.Errorf("tools that take no marks: %s, want %s", got, want)
	}
	r := request(protocol.Compat{}, say("hi"))
	r.Cache = "none"
	if body, err := (Protocol{}).Body(r); err != nil || strings.Contains(string(body), "cache_control") {
		t.Errorf("a body for no cache: %s, %v", body, err)
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	tests := []struct {
		name string
		req  func(r *protocol.Request)
		want string
	}{
		{"media that was not loaded", func(r *protocol.Request) {
			r.Messages = []llm.Message{of(llm.RoleUser, &llm.Media{MediaType: "image/png", Artifact: "abc"})}
		}, "an image is a reference to stored content"},
		{"the same in a result", func(r *protocol.Request) {
			r.Messages = []llm.Message{of(llm.RoleAssistant, call("c1", "f", "{}")), of(llm.RoleTool, result("c1", &llm.Media{MediaType: "image/png"}))}
		}, "an image has no content"},
		{"a message of nobody", func(r *protocol.Request) { r.Messages = []llm.Message{{Parts: []llm.Part{text("a")}}} }, "message 0 has no role"},
		{"a call of the user", func(r *protocol.Request) { r.Messages = []llm.Message{of(llm.RoleUser, call("c1", "f", "{}"))} }, "a message of the user holds a *llm.ToolCall"},
		{"text among results", func(r *protocol.Request) { r.Messages = []llm.Message{of(llm.RoleTool, text("a"))} }, "a message with results holds a *llm.Text"},
		{"a tool that is not there", func(r *protocol.Request) { r.ToolChoice = llm.ToolChoice{Mode: "tool", Name: "g"} }, `the tool choice names "g", which the request does not offer`},
		{"a choice nobody knows", func(r *protocol.Request) { r.ToolChoice.Mode = "maybe" }, `unknown tool choice "maybe"`},
		{"options that are a list", func(r *protocol.Request) {
			r.ProviderOptions = map[string]json.RawMessage{"acme": json.RawMessage(`[1]`)}
		},
			`the provider options acme are not a JSON object: it begins with [`},
		{"options that are cut off", func(r *protocol.Request) {
			r.ProviderOptions = map[string]json.RawMessage{"acme": json.RawMessage(`{"a":`)}
		},
			`the provider options acme are not a JSON object: EOF`},
		{"a schema that is no JSON", func(r *protocol.Request) { r.OutputSchema = json.RawMessage(`{`) },
			`the request can't be written as JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := asked(protocol.Compat{}, llm.Tool{Name: "f"})
			tt.req(r)
			_, err := Protocol{}.Body(r)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Code != llm.ErrInvalidRequest || e.Message != tt.want || e.Next == "" {
				t.Errorf("error %v (%+v), want an invalid request, %q and what to do", err, e, tt.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	r := asked(protocol.Compat{})
	r.Model.Input = nil
	r.Model.Efforts = []string{"low"}
	r.ReasoningEffort, r.Generation.TopK, r.HostedTools = "max", number[int64](1), []string{"web_search"}
	r.Messages = []llm.Message{of(llm.RoleUser, image())}
	var got []string
	r.Warn = func(s string) { got = append(got, s) }
	if _, err := (Protocol{}).Body(r); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"m: an image was left out: the model does not take it",
		"top_k was left out: chat completions has no such field; if the vendor supports it, set it in the provider options",
		`the reasoning effort "max" was left out: m takes ["low"]`,
		`the hosted tool "web_search" was left out: chat completions has none`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("warnings\n%q\nwant\n%q", got, want)
	}
}
