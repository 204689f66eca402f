package responses_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func call(id, name, input string) *llm.ToolCall {
	return &llm.ToolCall{ID: id, Name: name, Input: input}
}

func result(id string, parts ...llm.Part) *llm.ToolResult {
	return &llm.ToolResult{ID: id, Content: parts}
}

func withMeta[P llm.Part](p P, object string) P {
	switch p := llm.Part(p).(type) {
	case *llm.Text:
		p.Metadata = own(object)
	case *llm.Reasoning:
		p.Metadata = own(object)
	case *llm.ToolCall:
		p.Metadata = own(object)
	case *llm.ToolResult:
		p.Metadata = own(object)
	case *llm.Media:
		p.Metadata = own(object)
	}
	return p
}

func thought(text, object string) *llm.Reasoning {
	return &llm.Reasoning{Text: text, Metadata: own(object)}
}

func hostedCall(id, name, input string) *llm.ToolCall {
	return &llm.ToolCall{ID: id, Name: name, Input: input, ProviderExecuted: true}
}

func hostedResult(id, name string, parts ...llm.Part) *llm.ToolResult {
	return &llm.ToolResult{ID: id, Name: name, Content: parts, ProviderExecuted: true}
}

const searchItem = `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}}`

// inputs are histories and the items that they become.
var inputs = []struct {
	name     string
	model    func(m *protocol.Model) // nil: the one that takes everything
	tools    []llm.Tool
	messages []llm.Message
	want     []string
}{
	{
		"a call and its result", nil, nil,
		[]llm.Message{assistant(call("c1", "f", `{"a":1}`)), tool(result("c1", words("ok")))},
		[]string{
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"ok"}`,
		},
	},
	{
		"parts of one reasoning item", nil, nil,
		[]llm.Message{assistant(thought("a", `{"itemId":"rs_1"}`), thought("b", `{"itemId":"rs_1","reasoningEncryptedContent":"E"}`), words("x"))},
		[]string{
			`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"E"}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
		},
	},
	{
		"each part of an answer in a message of its own", nil, nil,
		[]llm.Message{
			assistant(thought("a", `{"itemId":"rs_1"}`)), assistant(thought("b", `{"itemId":"rs_1","reasoningEncryptedContent":"E"}`)),
			assistant(withMeta(words("x"), `{"itemId":"m_1","phase":"commentary"}`)), assistant(withMeta(words("y"), `{"itemId":"m_1","phase":"commentary"}`)),
			assistant(withMeta(words("z"), `{"itemId":"m_1","phase":"final_answer"}`)),
			assistant(withMeta(call("c1", "f", ""), `{"itemId":"fc_1"}`)), tool(result("c1")),
		},
		[]string{
			`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"E"}`,
			`{"type":"message","id":"m_1","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]},{"type":"output_text","text":"y","annotations":[]}],"phase":"commentary"}`,
			`{"type":"message","id":"m_1","role":"assistant","content":[{"type":"output_text","text":"z","annotations":[]}],"phase":"final_answer"}`,
			`{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"(no tool output)"}`,
		},
	},
	{
		"texts without an id stay apart", nil, nil, []llm.Message{assistant(words("a"), words("b"))},
		[]string{
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]}`,
		},
	},
	{
		"sources of a text", nil, nil, []llm.Message{assistant(withMeta(words("a"), `{"itemId":"m_1","annotations":[{"type":"url_citation","url":"http://x"}]}`))},
		[]string{`{"type":"message","id":"m_1","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"http://x"}]}]}`},
	},
	{
		"ids that are not the vendor's own", nil, nil,
		[]llm.Message{assistant(
			withMeta(words("a"), `{"itemId":"_ms"}`), withMeta(words("b"), `{"itemId":"ms_"}`), withMeta(words("c"), `{"itemId":"m-1"}`), withMeta(words("d"), `{"itemId":"_"}`),
			withMeta(words("e"), `{"itemId":"m_`+strings.Repeat("1", 63)+`"}`),
		)},
		[]string{
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c","annotations":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"d","annotations":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"e","annotations":[]}]}`,
		},
	},
	{
		"thoughts in the clear", nil, nil,
		[]llm.Message{assistant(thought("hm", `{"itemId":"rs_1","content":true}`), words("x"))},
		[]string{
			`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
		},
	},
	{
		// The vendor looks in vain for what it did not keep, and refuses what followed from it under its id.
		"a summary of thoughts that the vendor does not have", nil, nil,
		[]llm.Message{
			assistant(thought("a", `{"itemId":"rs_1"}`), withMeta(words("x"), `{"itemId":"m_1"}`), withMeta(call("c1", "f", `{}`), `{"itemId":"fc_1"}`)),
			tool(result("c1", words("ok"))), assistant(withMeta(words("y"), `{"itemId":"m_2"}`)),
		},
		[]string{
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"ok"}`,
			`{"type":"message","id":"m_2","role":"assistant","content":[{"type":"output_text","text":"y","annotations":[]}]}`,
		},
	},
	{
		"thoughts that can go back after some that can't", nil, nil,
		[]llm.Message{assistant(
			thought("a", `{"itemId":"rs_1"}`), withMeta(words("x"), `{"itemId":"m_1"}`), thought("b", `{"itemId":"rs_2","reasoningEncryptedContent":"E"}`), withMeta(words("y"), `{"itemId":"m_2"}`))},
		[]string{
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
			`{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"b"}],"encrypted_content":"E"}`,
			`{"type":"message","id":"m_2","role":"assistant","content":[{"type":"output_text","text":"y","annotations":[]}]}`,
		},
	},
	{
		"reasoning of another family and of another vendor", nil, nil,
		[]llm.Message{
			assistant(thought("a", `{"itemId":"rs_1","model":"gpt-y","reasoningEncryptedContent":"E"}`), withMeta(words("x"), `{"itemId":"m_1","model":"gpt-y"}`)),
			assistant(&llm.Reasoning{Text: "b", Metadata: llm.Metadata{"anthropic": json.RawMessage(`{"signature":"S"}`)}}, words("y")),
		},
		[]string{
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"y","annotations":[]}]}`,
		},
	},
	{
		"reasoning that nothing followed", nil, nil,
		[]llm.Message{
			assistant(thought("a", `{"itemId":"rs_1","reasoningEncryptedContent":"E"}`)), user(words("go on")),
			assistant(words("x"), thought("b", `{"itemId":"rs_2","reasoningEncryptedContent":"E"}`), thought("c", `{"itemId":"rs_3","reasoningEncryptedContent":"E"}`)),
		},
		[]string{
			`{"role":"user","content":[{"type":"input_text","text":"go on"}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
		},
	},
	{
		"the vendor's digest of the history", nil, nil,
		[]llm.Message{user(words("hi")), assistant(thought("", `{"itemId":"cmp_1","compaction":"E"}`)), user(words("go on"))},
		[]string{
			`{"role":"user","content":[{"type":"input_text","text":"hi"}]}`, `{"type":"compaction","id":"cmp_1","encrypted_content":"E"}`,
			`{"role":"user","content":[{"type":"input_text","text":"go on"}]}`,
		},
	},
	{
		"a note of the host", nil, nil, []llm.Message{user(words("hi")), say(llm.RoleSystem, words("use <b>"), words("now")), user(words("ho"))},
		[]string{
			`{"role":"user","content":[{"type":"input_text","text":"hi"}]}`,
			`{"role":"developer","content":[{"type":"input_text","text":"use <b>"},{"type":"input_text","text":"now"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"ho"}]}`,
		},
	},
	{
		"media of the user", nil, nil,
		[]llm.Message{user(
			words("see"), png(), &llm.Media{MediaType: "image/png", URL: "http://x/y.png", Detail: "original"}, withMeta(&llm.Media{MediaType: "image/png", Data: []byte("x")}, `{"fileId":"file_1"}`),
			&llm.Media{MediaType: "application/pdf", Data: []byte("PDF"), Filename: "a.pdf"}, &llm.Media{MediaType: "application/pdf", Data: []byte("PDF")},
			&llm.Media{MediaType: "application/pdf", URL: "http://x/a.pdf"}, &llm.Media{MediaType: "application/pdf", URL: "data:application/pdf;base64,UA=="}, withMeta(&llm.Media{MediaType: "application/pdf"}, `{"fileId":"file_2"}`),
		)},
		[]string{`{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":` + pngURL + `,"detail":"auto"},{"type":"input_image","image_url":"http://x/y.png","detail":"original"},{"type":"input_image","file_id":"file_1","detail":"auto"},` +
			`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,UERG"},{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,UERG"},` +
			`{"type":"input_file","file_url":"http://x/a.pdf"},{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,UA=="},{"type":"input_file","file_id":"file_2"}]}`},
	},
	{
		"media that the model does not take", func(m *protocol.Model) { m.Input = nil }, nil,
		[]llm.Message{
			user(png(), &llm.Media{MediaType: "audio/wav", Data: []byte("x")}, &llm.Media{MediaType: "application/pdf", Data: []byte("x"), Filename: "a.pdf"}),
			assistant(call("c1", "f", `{}`)), tool(result("c1", words("seen"), png())),
		},
		[]string{
			`{"role":"user","content":[{"type":"input_text","text":"(an image was left out: the model does not take it)"},{"type":"input_text","text":"(a recording was left out: the model does not take it)"},{"type":"input_text","text":"(a document \"a.pdf\" was left out: the model does not take it)"}]}`,
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"seen\n(an image was left out: the model does not take it)"}`,
		},
	},
	{
		"a vendor that takes no images", func(m *protocol.Model) { m.Compat.NoImages = true }, nil, []llm.Message{user(png())},
		[]string{`{"role":"user","content":[{"type":"input_text","text":"(an image was left out: the model does not take it)"}]}`},
	},
	{
		"a result with an image", nil, nil, []llm.Message{assistant(call("c1", "f", `{}`)), tool(result("c1", png()))},
		[]string{
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":` + pngURL + `,"detail":"auto"}]}`,
		},
	},
	{
		"a result with words and a file, one of words only", nil, nil,
		[]llm.Message{assistant(call("c1", "f", `{}`), call("c2", "f", `{}`)), tool(
			result("c1", words("see"), &llm.Media{MediaType: "application/pdf", Data: []byte("P"), Filename: "a.pdf"}), result("c2", words("a"), words("b")))},
		[]string{
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`, `{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"see"},{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,UA=="}]}`,
			`{"type":"function_call_output","call_id":"c2","output":"a\nb"}`,
		},
	},
	{
		"an image of the assistant's own", nil, nil, []llm.Message{assistant(words("see"), png())},
		[]string{
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"see","annotations":[]}]}`,
			`{"role":"user","content":[{"type":"input_image","image_url":` + pngURL + `,"detail":"auto"}]}`,
		},
	},
	{
		"a call of a grammar tool", nil, []llm.Tool{patch()},
		[]llm.Message{
			assistant(&llm.ToolCall{ID: "c1", Name: "apply_patch", Input: "*** <b>", Freeform: true, Metadata: own(`{"itemId":"ct_1"}`)}, call("c2", "apply_patch", `{"patch":"x"}`)),
			tool(result("c1", words("ok")), result("c2", words("ok"))),
		},
		[]string{
			`{"type":"custom_tool_call","id":"ct_1","call_id":"c1","name":"apply_patch","input":"*** <b>"}`,
			`{"type":"function_call","call_id":"c2","name":"apply_patch","arguments":"{\"patch\":\"x\"}"}`,
			`{"type":"custom_tool_call_output","call_id":"c1","output":"ok"}`, `{"type":"function_call_output","call_id":"c2","output":"ok"}`,
		},
	},
	{
		"a call of a grammar tool, for a model that takes none", func(m *protocol.Model) { m.Freeform = false },
		[]llm.Tool{patch(), {Name: "say", InputSchema: json.RawMessage(`{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]}`)}},
		[]llm.Message{
			assistant(&llm.ToolCall{ID: "c1", Name: "apply_patch", Input: "*** <b>", Freeform: true, Metadata: own(`{"itemId":"ct_1"}`)},
				&llm.ToolCall{ID: "c2", Name: "say", Input: "x", Freeform: true}, &llm.ToolCall{ID: "c3", Name: "gone", Input: "x", Freeform: true}),
			tool(result("c1", words("ok")), result("c2", words("ok")), result("c3", words("ok"))),
		},
		[]string{
			`{"type":"function_call","call_id":"c1","name":"apply_patch","arguments":"{\"patch\":\"*** <b>\"}"}`,
			`{"type":"function_call","call_id":"c2","name":"say","arguments":"{\"line\":\"x\"}"}`, `{"type":"function_call","call_id":"c3","name":"gone","arguments":"{\"input\":\"x\"}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"ok"}`, `{"type":"function_call_output","call_id":"c2","output":"ok"}`, `{"type":"function_call_output","call_id":"c3","output":"ok"}`,
		},
	},
	{
		"calls of namespaced tools", nil, nil,
		[]llm.Message{assistant(&llm.ToolCall{ID: "c1", Namespace: "db", Name: "f", Input: `{}`}), tool(result("c1", words("ok")))},
		[]string{`{"type":"function_call","call_id":"c1","name":"db__f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c1","output":"ok"}`},
	},
	{
		"calls of namespaced tools, where the vendor groups them", func(m *protocol.Model) { m.Compat.NativeNamespaces = true }, nil,
		[]llm.Message{
			assistant(&llm.ToolCall{ID: "c1", Namespace: "db", Name: "f", Input: `{}`}, &llm.ToolCall{ID: "c2", Namespace: "my.db", Name: "f", Input: `{}`}),
			tool(result("c1", words("ok")), result("c2", words("ok"))),
		},
		[]string{
			`{"type":"function_call","call_id":"c1","name":"f","namespace":"db","arguments":"{}"}`,
			`{"type":"function_call","call_id":"c2","name":"` + protocol.WireName("my.db", "f") + `","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"ok"}`, `{"type":"function_call_output","call_id":"c2","output":"ok"}`,
		},
	},
	{
		"a call id that is too long", nil, nil,
		[]llm.Message{assistant(call(strings.Repeat("x", 65), "f", `{}`)), tool(result(strings.Repeat("x", 65), words("ok")))},
		[]string{
			`{"type":"function_call","call_id":"` + protocol.WireName("", strings.Repeat("x", 65)) + `","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"` + protocol.WireName("", strings.Repeat("x", 65)) + `","output":"ok"}`,
		},
	},
	{
		"a call without a result", nil, nil, []llm.Message{assistant(call("c1", "f", `{}`)), user(words("hi"))},
		[]string{
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"The result of this call is missing: the call ended before it could be recorded."}`,
			`{"role":"user","content":[{"type":"input_text","text":"hi"}]}`,
		},
	},
	{
		"a tool of the vendor's, its item kept", nil, nil,
		[]llm.Message{assistant(hostedCall("ws_1", "web_search", `{}`)), assistant(withMeta(hostedResult("ws_1", "web_search", words("completed")), `{"itemId":"ws_1","item":`+searchItem+`}`)), assistant(words("x"))},
		[]string{searchItem, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`},
	},
	{
		"a tool of the vendor's, its item under another id", nil, nil,
		[]llm.Message{assistant(hostedCall("ws_1", "web_search", `{"query":"q"}`), withMeta(hostedResult("ws_1", "web_search", words("completed")), `{"itemId":"ws_2","item":`+searchItem+`}`))},
		[]string{`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model with {\"query\":\"q\"} and gave:)"},{"type":"input_text","text":"completed"}]}`},
	},
	{
		"a tool of another vendor's", nil, nil,
		[]llm.Message{assistant(
			hostedCall("s1", "web_search", `{}`), hostedResult("s1", "web_search", words("sun"), png()),
			hostedCall("s2", "web_search", `{}`), &llm.ToolResult{ID: "s2", Name: "web_search", IsError: true, ProviderExecuted: true, Content: llm.Parts{words("no")}},
			hostedCall("s3", "web_search", `{}`), hostedResult("s4", "web_search", words("late")))},
		[]string{
			`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model and gave:)"},{"type":"input_text","text":"sun"},{"type":"input_image","image_url":` + pngURL + `,"detail":"auto"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model and failed:)"},{"type":"input_text","text":"no"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model. What it gave is not known.)"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model and gave:)"},{"type":"input_text","text":"late"}]}`,
		},
	},
	{
		"tools of the vendor's under an id that comes again", nil, nil,
		[]llm.Message{
			assistant(hostedCall("call_1", "web_search", `{}`), hostedResult("call_1", "web_search", words("sun"))), user(words("again")),
			assistant(hostedCall("call_1", "web_search", `{}`), hostedResult("call_1", "web_search", words("rain"))),
		},
		[]string{
			`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model and gave:)"},{"type":"input_text","text":"sun"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"again"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model and gave:)"},{"type":"input_text","text":"rain"}]}`,
		},
	},
	{
		"a function's call under the id of a grammar tool's", nil, []llm.Tool{patch()},
		[]llm.Message{
			assistant(&llm.ToolCall{ID: "call_1", Name: "apply_patch", Input: "x", Freeform: true}), tool(result("call_1", words("ok"))),
			assistant(call("call_1", "f", `{}`)), tool(result("call_1", words("ok"))),
		},
		[]string{
			`{"type":"custom_tool_call","call_id":"call_1","name":"apply_patch","input":"x"}`, `{"type":"custom_tool_call_output","call_id":"call_1","output":"ok"}`,
			`{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"call_1","output":"ok"}`,
		},
	},
	{
		"a picture that the vendor made", nil, nil,
		[]llm.Message{assistant(hostedCall("ig_1", "image_generation", `{}`), withMeta(hostedResult("ig_1", "image_generation", png()), `{"itemId":"ig_1","item":{"type":"image_generation_call","id":"ig_1","status":"completed"}}`))},
		[]string{`{"id":"ig_1","result":"UE5H","status":"completed","type":"image_generation_call"}`},
	},
	{
		"a picture that the vendor made and the history lost", nil, nil,
		[]llm.Message{assistant(hostedCall("ig_1", "image_generation", `{}`), withMeta(hostedResult("ig_1", "image_generation", words("image omitted")), `{"itemId":"ig_1","item":{"type":"image_generation_call","id":"ig_1","status":"completed"}}`))},
		[]string{`{"role":"user","content":[{"type":"input_text","text":"(The tool image_generation was run by the vendor of a model and gave:)"},{"type":"input_text","text":"image omitted"}]}`},
	},
	{
		"a tool of the vendor's after thoughts that can't go back", nil, nil,
		[]llm.Message{assistant(thought("a", `{"itemId":"rs_1"}`), hostedCall("ws_1", "web_search", `{}`), withMeta(hostedResult("ws_1", "web_search", words("completed")), `{"itemId":"ws_1","item":`+searchItem+`}`))},
		[]string{`{"role":"user","content":[{"type":"input_text","text":"(The tool web_search was run by the vendor of a model and gave:)"},{"type":"input_text","text":"completed"}]}`},
	},
}

func itemsOf(t *testing.T, body []byte) []string {
	t.Helper()
	var b struct {
		Input []json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	items := make([]string, len(b.Input))
	for i, raw := range b.Input {
		items[i] = string(raw)
	}
	return items
}

func TestInput(t *testing.T) {
	t.Parallel()
	for _, tc := range inputs {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := request()
			r.Model = thinker()
			if tc.model != nil {
				tc.model(&r.Model)
			}
			r.Tools, r.Messages = tc.tools, tc.messages
			body, err := (responses.Protocol{}).Body(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := itemsOf(t, body); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func TestAVendorThatKeepsAnswersKnowsItsThoughtsByID(t *testing.T) {
	t.Parallel()
	r := request()
	r.Model = thinker()
	options(r, "openai", `{"store":true}`)
	r.Messages = []llm.Message{assistant(thought("a", `{"itemId":"rs_1"}`), withMeta(words("x"), `{"itemId":"m_1"}`))}
	body, err := (responses.Protocol{}).Body(r)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"}]}`,
		`{"type":"message","id":"m_1","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`,
	}
	if got := itemsOf(t, body); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// mixedHistory has one of everything.
func mixedHistory() []llm.Message {
	return []llm.Message{
		user(words("look at this"), png()),
		assistant(thought("first", `{"itemId":"rs_1","model":"gpt-x"}`)),
		assistant(thought("then", `{"itemId":"rs_1","model":"gpt-x","reasoningEncryptedContent":"AbC+/="}`)),
		assistant(withMeta(words("I look."), `{"itemId":"msg_1","model":"gpt-x","phase":"commentary"}`)),
		assistant(withMeta(call("c1", "look", `{"q": "x"}`), `{"itemId":"fc_1","model":"gpt-x"}`)),
		assistant(withMeta(&llm.ToolCall{ID: "c2", Name: "apply_patch", Input: "*** Begin\n<x>", Freeform: true}, `{"itemId":"ctc_1","model":"gpt-x"}`)),
		tool(result("c1", words("found"), png())), tool(result("c2", words("Done."))),
		say(llm.RoleSystem, words("The date changed.")),
		assistant(hostedCall("ws_1", "web_search", `{"type":"search","query":"q"}`)),
		assistant(withMeta(hostedResult("ws_1", "web_search", words("completed")), `{"itemId":"ws_1","item":`+searchItem+`,"model":"gpt-x"}`)),
		assistant(withMeta(words("It is so."), `{"itemId":"msg_2","model":"gpt-x","phase":"final_answer","annotations":[{"type":"url_citation","url":"http://x","start_index":0,"end_index":5}]}`)),
		user(words("and now?")),
		assistant(&llm.Reasoning{Text: "another vendor thinks", Metadata: llm.Metadata{"anthropic": json.RawMessage(`{"signature":"S"}`)}}, words("Another vendor speaks."), call("toolu_1", "look", `{"q":"y"}`)),
		tool(&llm.ToolResult{ID: "toolu_1", IsError: true, Content: llm.Parts{words("boom")}}),
		user(words("thanks"), &llm.Media{MediaType: "application/pdf", Data: []byte("PDF"), Filename: "a.pdf"}),
	}
}

// A vendor's cache holds the beginning of the last request. It pays only if the next one begins with the same bytes.
func TestAGrowingHistoryKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	history := mixedHistory()
	var before []string
	for n := range len(history) + 1 {
		if n > 0 && (history[n-1].Role == llm.RoleAssistant || n < len(history) && history[n].Role == llm.RoleTool) {
			continue // nobody asks behind an answer or in the middle of results
		}
		r := request()
		r.Model = thinker()
		r.Messages = history[:n]
		body, err := (responses.Protocol{}).Body(r)
		if err != nil {
			t.Fatal(err)
		}
		items := itemsOf(t, body)
		if len(items) < len(before) || !slices.Equal(items[:len(before)], before) {
			t.Errorf("with %d messages\n%s\nbefore\n%s", n, strings.Join(items, "\n"), strings.Join(before, "\n"))
		}
		before = items
	}
}

func TestGoldenBodies(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(r *protocol.Request){
		"text": func(r *protocol.Request) {
			r.System, r.PromptCacheKey = []string{"You help.", "Be brief."}, "thread-1"
			r.Messages = []llm.Message{user(words("hi"))}
		},
		"tools": func(r *protocol.Request) {
			r.Tools, r.ParallelToolCalls = []llm.Tool{look(), {Name: "query", Namespace: "db", InputSchema: anything}}, true
			r.Messages = []llm.Message{
				user(words("look")), assistant(call("c1", "look", `{"q":"x"}`), &llm.ToolCall{ID: "c2", Namespace: "db", Name: "query", Input: `{}`}),
				tool(result("c1", words("ok")), result("c2", words("a"), words("b"))),
			}
		},
		"images": func(r *protocol.Request) {
			r.Messages = []llm.Message{user(words("what is it?"), png()), assistant(call("c1", "look", `{}`)), tool(result("c1", words("see"), png()))}
		},
		"reasoning": func(r *protocol.Request) {
			r.ReasoningEffort = "high"
			r.Messages = append([]llm.Message{user(words("think"))}, mixedHistory()[1:4]...)
		},
		"freeform": func(r *protocol.Request) {
			r.Tools = []llm.Tool{patch()}
			r.Messages = []llm.Message{user(words("patch")), assistant(&llm.ToolCall{ID: "c1", Name: "apply_patch", Input: "*** Begin", Freeform: true}), tool(result("c1", words("Done.")))}
		},
		"freeform-as-function": func(r *protocol.Request) {
			r.Tools, r.Model.Freeform = []llm.Tool{patch()}, false
			r.Messages = []llm.Message{user(words("patch")), assistant(&llm.ToolCall{ID: "c1", Name: "apply_patch", Input: "*** Begin", Freeform: true}), tool(result("c1", words("Done.")))}
		},
		"hosted": func(r *protocol.Request) {
			r.HostedTools = []string{"web_search", "image_generation"}
			options(r, "openai", `{"hosted_tools":{"web_search":{"external_web_access":true,"user_location":{"city":"Pisa"}}},"include":["web_search_call.action.sources"]}`)
			r.Messages = append([]llm.Message{user(words("search"))}, mixedHistory()[9:12]...)
		},
		"structured-output": func(r *protocol.Request) {
			r.OutputSchema, r.OutputSchemaName = json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false}`), "title"
			options(r, "openai", `{"text_verbosity":"low"}`)
			r.Messages = []llm.Message{user(words("name it"))}
		},
		"mixed": func(r *protocol.Request) {
			r.System, r.Tools, r.ParallelToolCalls = []string{"You help."}, []llm.Tool{look(), patch()}, true
			r.ReasoningEffort, r.PromptCacheKey, r.ServiceTier = "medium", "thread-1", "flex"
			r.Generation.MaxTokens = new(int64(4096))
			r.Messages = mixedHistory()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request()
			r.Model = thinker()
			set(r)
			protocoltest.Golden(t, name, responses.Protocol{}, r)
		})
	}
}
