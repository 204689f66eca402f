package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/gemini"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// signed is what a part keeps of Google's.
func signed(signature string) llm.Metadata {
	return llm.Metadata{"google": json.RawMessage(`{"thoughtSignature":"` + signature + `"}`)}
}

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

func of(model string, messages ...llm.Message) *protocol.Request {
	return &protocol.Request{
		Request:   &llm.Request{Messages: messages},
		Model:     protocol.Model{ID: model, Input: []string{"image", "pdf", "audio", "video"}},
		Namespace: "google",
	}
}

// field is one field of the body, as it is sent.
func field(t *testing.T, r *protocol.Request, name string) string {
	t.Helper()
	body, err := gemini.Protocol{}.Body(r)
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
	body, err := gemini.Protocol{}.Body(r)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.ErrInvalidRequest || !strings.Contains(e.Message, message) {
		t.Errorf("body %s, error %v, want an invalid request: %q", body, err, message)
	}
}

func TestPath(t *testing.T) {
	for id, want := range map[string]string{
		"gemini-2.5-flash":        "/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
		"models/gemini-2.5-flash": "/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
		"tunedModels/mine-x1":     "/tunedModels/mine-x1:streamGenerateContent?alt=sse",
		"odd/na me?key=x#y":       "/models/odd%2Fna%20me%3Fkey=x%23y:streamGenerateContent?alt=sse",
	} {
		if got := (gemini.Protocol{}).Path(of(id)); got != want {
			t.Errorf("path of %q = %s, want %s", id, got, want)
		}
	}
	r := of("")
	r.Request.Model = "gemini-x"
	if got, want := (gemini.Protocol{}).Path(r), "/models/gemini-x:streamGenerateContent?alt=sse"; got != want {
		t.Errorf("path = %s, want %s", got, want)
	}
}

func TestContents(t *testing.T) {
	const gemini3, gemini25 = "gemini-3-pro-preview", "gemini-2.5-flash"
	png := &llm.Media{MediaType: "image/png", Data: []byte("png")}
	tests := []struct {
		name  string
		model string
		tell  []llm.Message
		want  string
	}{
		{"a question", gemini3, []llm.Message{user(text("hi"))}, `[{"role":"user","parts":[{"text":"hi"}]}]`},
		{
			"an answer in one message, and the same one block a message", gemini3,
			[]llm.Message{
				user(text("a")), assistant(text("b"), text("c")), user(text("d")), assistant(text("e")), assistant(text("f")), user(text("g")), user(text("h")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"},{"text":"c"}]},{"role":"user","parts":[{"text":"d"}]},
			  {"role":"model","parts":[{"text":"e"},{"text":"f"}]},{"role":"user","parts":[{"text":"g"},{"text":"h"}]}]`,
		},
		{
			"files of all kinds", gemini3,
			[]llm.Message{user(
				png, &llm.Media{MediaType: "application/pdf", Data: []byte("pdf")}, &llm.Media{MediaType: "audio/mp3", Data: []byte("mp3")},
				&llm.Media{MediaType: "video/mp4", URL: "https://h/v.mp4"}, &llm.Media{URL: "data:image/jpeg;base64,anBn"},
				&llm.Media{MediaType: "text/plain", URL: "data:,a%20b"},
			)},
			`[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"cG5n"}},{"inlineData":{"mimeType":"application/pdf","data":"cGRm"}},
			  {"inlineData":{"mimeType":"audio/mp3","data":"bXAz"}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://h/v.mp4"}},
			  {"inlineData":{"mimeType":"image/jpeg","data":"anBn"}},{"inlineData":{"mimeType":"text/plain","data":"YSBi"}}]}]`,
		},
		{
			"calls and results with ids from generation 3 on", gemini3,
			[]llm.Message{
				user(text("a")), assistant(&llm.ToolCall{ID: "c1", Name: "f", Input: `{"a":1}`, Metadata: signed("s")}), result("c1", "f", text("ok")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"s"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"ok"}}}]}]`,
		},
		{
			"and without before it", gemini25,
			[]llm.Message{user(text("a")), assistant(call("c1", "f", "")), result("c1", "f", text("ok"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","content":"ok"}}}]}]`,
		},
		{
			"other models behind the format take ids", "gemma-4-31b-it",
			[]llm.Message{user(text("a")), assistant(call("c1", "f", "")), result("c1", "f", text("ok"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"ok"}}}]}]`,
		},
		{
			"all results of a turn in one content", gemini25,
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "{}")), assistant(call("c2", "g", "{}")), result("c1", "f", text("1")), result("c2", "g", text("2"), text("3")),
				assistant(text("b")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","content":"1"}}},
			    {"functionResponse":{"name":"g","response":{"name":"g","content":"2\n3"}}}]},
			  {"role":"model","parts":[{"text":"b"}]}]`,
		},
		{
			"an error is told as one", gemini25,
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "{}")),
				{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "c1", Name: "f", IsError: true, Content: llm.Parts{text("boom")}}}},
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","error":"boom"}}}]}]`,
		},
		{
			"an image in a result is nested from generation 3 on", gemini3,
			[]llm.Message{user(text("a")), assistant(&llm.ToolCall{ID: "c1", Name: "f", Metadata: signed("s")}), result("c1", "f", text("see"), png)},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"s"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"see"},
			    "parts":[{"inlineData":{"mimeType":"image/png","data":"cG5n"}}]}}]}]`,
		},
		{
			"what can't be nested follows", gemini3,
			[]llm.Message{
				user(text("a")), assistant(&llm.ToolCall{ID: "c1", Name: "f", Metadata: signed("s")}),
				result("c1", "f", text("hear"), &llm.Media{MediaType: "audio/mp3", Data: []byte("mp3")}), user(text("well?")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"s"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"hear"}}}]},
			  {"role":"user","parts":[{"text":"Media in the result of f:"},{"inlineData":{"mimeType":"audio/mp3","data":"bXAz"}},{"text":"well?"}]}]`,
		},
		{
			"before it, images follow all results", gemini25,
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "{}"), call("c2", "g", "{}")), result("c1", "f", text("see"), png), result("c2", "g", text("2")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","content":"see"}}},
			    {"functionResponse":{"name":"g","response":{"name":"g","content":"2"}}}]},
			  {"role":"user","parts":[{"text":"Media in the result of f:"},{"inlineData":{"mimeType":"image/png","data":"cG5n"}}]}]`,
		},
		{
			"a note joins the user's turn", gemini3,
			[]llm.Message{user(text("a")), update("use b"), assistant(text("c")), update("use d")},
			`[{"role":"user","parts":[{"text":"a"},{"text":"<system-update>\nuse b\n</system-update>"}]},{"role":"model","parts":[{"text":"c"}]},
			  {"role":"user","parts":[{"text":"<system-update>\nuse d\n</system-update>"}]}]`,
		},
		{
			"a note among results comes after all of them", gemini25,
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "{}"), call("c2", "g", "{}")), result("c1", "f", text("1")), update("use b"), result("c2", "g", text("2")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","content":"1"}}},
			    {"functionResponse":{"name":"g","response":{"name":"g","content":"2"}}}]},
			  {"role":"user","parts":[{"text":"<system-update>\nuse b\n</system-update>"}]}]`,
		},
		{
			"signatures stand where they came from", gemini3,
			[]llm.Message{
				user(text("a")),
				assistant(&llm.Reasoning{Text: "t", Metadata: signed("s1")}, &llm.Text{Text: "b", Metadata: signed("s2")}, &llm.Text{Metadata: signed("s3")}),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"s1"},
			  {"text":"b","thoughtSignature":"s2"},{"text":"","thoughtSignature":"s3"}]}]`,
		},
		{
			"unsigned thoughts and those of others stay away", gemini3,
			[]llm.Message{
				user(text("a")),
				assistant(&llm.Reasoning{Text: "mine"}, &llm.Reasoning{Text: "theirs", Metadata: llm.Metadata{"anthropic": json.RawMessage(`{"signature":"x"}`)}}, text("b")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}]`,
		},
		{
			"an answer of nothing but such thoughts", gemini3,
			[]llm.Message{user(text("a")), assistant(&llm.Reasoning{Text: "mine"}), user(text("b"))},
			`[{"role":"user","parts":[{"text":"a"},{"text":"b"}]}]`,
		},
		{
			"parallel calls that nobody signed", gemini3,
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "{}"), call("c2", "g", "{}")), result("c1", "f", text("1")), result("c2", "g", text("2")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[
			    {"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},
			    {"functionCall":{"id":"c2","name":"g","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"1"}}},
			    {"functionResponse":{"id":"c2","name":"g","response":{"name":"g","content":"2"}}}]}]`,
		},
		{
			"parallel calls that another vendor signed", gemini3,
			[]llm.Message{
				user(text("a")),
				assistant(
					&llm.ToolCall{ID: "c1", Name: "f", Input: "{}", Metadata: llm.Metadata{"openai": json.RawMessage(`{"itemId":"fc_1"}`)}},
					&llm.ToolCall{ID: "c2", Name: "g", Input: "{}", Metadata: llm.Metadata{"other": json.RawMessage(`{"thoughtSignature":"x"}`)}},
				),
				result("c1", "f", text("1")), result("c2", "g", text("2")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[
			    {"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},
			    {"functionCall":{"id":"c2","name":"g","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"1"}}},
			    {"functionResponse":{"id":"c2","name":"g","response":{"name":"g","content":"2"}}}]}]`,
		},
		{
			"parallel calls of which the first is signed", gemini3,
			[]llm.Message{
				user(text("a")), assistant(&llm.ToolCall{ID: "c1", Name: "f", Metadata: signed("s")}), assistant(call("c2", "g", "{}")),
				result("c1", "f", text("1")), result("c2", "g", text("2")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"s"},
			    {"functionCall":{"id":"c2","name":"g","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"1"}}},
			    {"functionResponse":{"id":"c2","name":"g","response":{"name":"g","content":"2"}}}]}]`,
		},
		{
			"steps, one signed and one not", gemini3,
			[]llm.Message{
				user(text("a")), assistant(&llm.ToolCall{ID: "c1", Name: "f", Metadata: signed("s")}), result("c1", "f", text("1")),
				assistant(call("c2", "g", "{}")), result("c2", "g", text("2")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"s"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"name":"f","content":"1"}}}]},
			  {"role":"model","parts":[{"functionCall":{"id":"c2","name":"g","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"c2","name":"g","response":{"name":"g","content":"2"}}}]}]`,
		},
		{
			"a call without a result", gemini25,
			[]llm.Message{user(text("a")), assistant(call("c1", "f", "{}")), user(text("b"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","error":"MISSING"}}}]},{"role":"user","parts":[{"text":"b"}]}]`,
		},
		{
			"input that is no object, as others leave it", gemini25,
			[]llm.Message{
				user(text("a")), assistant(call("c1", "f", "[1]"), call("c2", "f", "oops"), &llm.ToolCall{ID: "c3", Name: "patch", Input: "*** Begin", Freeform: true}),
				result("c1", "f", text("1")), result("c2", "f", text("2")), result("c3", "patch", text("3")),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"input":"[1]"}}},
			    {"functionCall":{"name":"f","args":{"input":"oops"}}},{"functionCall":{"name":"patch","args":{"input":"*** Begin"}}}]},
			  {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"name":"f","content":"1"}}},
			    {"functionResponse":{"name":"f","response":{"name":"f","content":"2"}}},{"functionResponse":{"name":"patch","response":{"name":"patch","content":"3"}}}]}]`,
		},
		{
			"what hosted tools did, ours and another vendor's", gemini3,
			[]llm.Message{
				user(text("a")),
				assistant(
					&llm.ToolCall{ID: "x", Name: "code_execution", ProviderExecuted: true, Metadata: llm.Metadata{"google": json.RawMessage(`{"part":{"executableCode":{"code":"1<2"}},"thoughtSignature":"s"}`)}},
					&llm.ToolResult{ID: "x", ProviderExecuted: true, Metadata: llm.Metadata{"google": json.RawMessage(`{"part":{"codeExecutionResult":{"output":"1"}}}`)}},
					&llm.ToolCall{ID: "y", Name: "web_search", ProviderExecuted: true}, &llm.ToolResult{ID: "y", ProviderExecuted: true}, text("b"),
				),
			},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"executableCode":{"code":"1<2"},"thoughtSignature":"s"},
			  {"codeExecutionResult":{"output":"1"}},{"text":"b"}]}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := missing.ReplaceAllString(field(t, of(tt.model, tt.tell...), "contents"), `"error":"MISSING"`)
			wantJSON(t, "contents", got, tt.want)
		})
	}
}

// missing is what stands for a result that never came; its words are not ours.
var missing = regexp.MustCompile(`"error":"[^"]*is missing[^"]*"`)

// A file that the model does not take leaves a note, and whoever asked hears of it.
func TestFilesLeftOut(t *testing.T) {
	r := of("gemini-2.5-flash", user(&llm.Media{MediaType: "audio/mp3", Data: []byte("x")}, &llm.Media{MediaType: "application/zip", Data: []byte("x")}))
	r.Model.Input = []string{"image"}
	var warnings []string
	r.Warn = func(s string) { warnings = append(warnings, s) }
	wantJSON(t, "contents", field(t, r, "contents"), `[{"role":"user","parts":[{"text":"(a recording was left out: the model does not take it)"},
		{"text":"(a file of the type application/zip was left out: the model does not take it)"}]}]`)
	if len(warnings) != 2 {
		t.Errorf("warnings = %q, want two", warnings)
	}
}

func TestBadContents(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message llm.Message
		want    string
	}{
		{"a stored file", user(&llm.Media{MediaType: "image/png", Artifact: "abc"}), "stored content"},
		{"a file without content", user(&llm.Media{MediaType: "image/png"}), "has no content"},
		{"a data URL without data", user(&llm.Media{MediaType: "image/png", URL: "data:image/png"}), "has no comma"},
		{"a data URL that is no base64", user(&llm.Media{MediaType: "image/png", URL: "data:image/png;base64,?"}), "not in base64"},
		{"a call in a user's message", user(call("c", "f", "")), "user's message"},
		{"a text in a tool's message", llm.Message{Role: llm.RoleTool, Parts: []llm.Part{text("x")}}, "tool's message"},
		{"no role", llm.Message{Parts: []llm.Part{text("x")}}, "no role"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantInvalid(t, of("gemini-3-pro", tt.message), tt.want) })
	}
}

func TestTools(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer","enum":[1,2]}},"additionalProperties":false}`)
	r := of("gemini-3-pro", user(text("hi")))
	r.Tools = []llm.Tool{
		{Name: "f", Description: "does f", InputSchema: schema},
		{Name: "g", Namespace: "ns", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		{Name: "patch", Freeform: &llm.Freeform{Syntax: "lark", Definition: "start: x", Property: "patch"}},
	}
	wantJSON(t, "tools", field(t, r, "tools"), `[{"functionDeclarations":[
		{"name":"f","description":"does f","parametersJsonSchema":{"type":"object","properties":{"a":{"type":"integer","enum":[1,2]}},"additionalProperties":false}},
		{"name":"ns__g","parametersJsonSchema":{"type":"object","properties":{}}},
		{"name":"patch","parametersJsonSchema":{"type":"object","properties":{"patch":{"type":"string","description":"Text that follows this lark grammar:\nstart: x"}},"required":["patch"],"additionalProperties":false}}]}]`)
	wantJSON(t, "toolConfig", field(t, r, "toolConfig"), "")

	r.Messages = append(r.Messages, assistant(&llm.ToolCall{ID: "c", Name: "patch", Input: "***", Freeform: true, Metadata: signed("s")}), result("c", "patch", text("ok")))
	if got := field(t, r, "contents"); !strings.Contains(got, `"args":{"patch":"***"}`) {
		t.Errorf("contents = %s, want the text under the tool's own property", got)
	}

	r.Model.Compat.Sanitizer = "gemini"
	var got []struct{ FunctionDeclarations []map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(field(t, r, "tools")), &got); err != nil {
		t.Fatal(err)
	}
	f, g := got[0].FunctionDeclarations[0], got[0].FunctionDeclarations[1]
	wantJSON(t, "parameters", string(f["parameters"]), `{"type":"object","properties":{"a":{"type":"string","enum":["1","2"]}}}`)
	wantJSON(t, "parametersJsonSchema", string(f["parametersJsonSchema"]), "")
	wantJSON(t, "parameters of a function that takes none", string(g["parameters"]), "")
}

func TestToolChoice(t *testing.T) {
	plain := []llm.Tool{{Name: "f"}, {Name: "g", Namespace: "ns"}}
	strict := []llm.Tool{{Name: "f"}, {Name: "g", Strict: true}}
	tests := []struct {
		name   string
		tools  []llm.Tool
		choice llm.ToolChoice
		want   string
	}{
		{"the model's own", plain, llm.ToolChoice{}, ""},
		{"auto", plain, llm.ToolChoice{Mode: "auto"}, `{"functionCallingConfig":{"mode":"AUTO"}}`},
		{"a strict tool", strict, llm.ToolChoice{}, `{"functionCallingConfig":{"mode":"VALIDATED"}}`},
		{"none", plain, llm.ToolChoice{Mode: "none"}, `{"functionCallingConfig":{"mode":"NONE"}}`},
		{"any", strict, llm.ToolChoice{Mode: "required"}, `{"functionCallingConfig":{"mode":"ANY"}}`},
		{"one", plain, llm.ToolChoice{Mode: "tool", Name: "f"}, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`},
		{"one in a namespace", plain, llm.ToolChoice{Mode: "tool", Name: "g"}, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["ns__g"]}}`},
		{"no tools", nil, llm.ToolChoice{Mode: "required"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := of("gemini-3-pro", user(text("hi")))
			r.Tools, r.ToolChoice = tt.tools, tt.choice
			wantJSON(t, "toolConfig", field(t, r, "toolConfig"), tt.want)
		})
	}
	r := of("gemini-3-pro", user(text("hi")))
	r.Tools, r.ToolChoice = plain, llm.ToolChoice{Mode: "tool", Name: "h"}
	wantInvalid(t, r, `the tool choice names "h"`)
	r.ToolChoice = llm.ToolChoice{Mode: "sometimes"}
	wantInvalid(t, r, `unknown tool choice "sometimes"`)
}

func TestHostedTools(t *testing.T) {
	tests := []struct {
		name, model  string
		functions    bool
		hosted       []string
		tools, confg string
		warnings     int
	}{
		{
			"alone", "gemini-2.5-flash", false, []string{"web_search", "code_execution", "url_context"},
			`[{"googleSearch":{}},{"codeExecution":{}},{"urlContext":{}}]`, "", 0,
		},
		{"beside functions", "gemini-3-pro", true, []string{"web_search"},
			`[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","properties":{}}}]},{"googleSearch":{}}]`, `{"includeServerSideToolInvocations":true}`, 0},
		{"beside functions, of a model that takes only one of them", "gemini-2.5-flash", true, []string{"web_search"},
			`[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","properties":{}}}]}]`, "", 1},
		{"unknown", "gemini-3-pro", false, []string{"teleport"}, "", "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := of(tt.model, user(text("hi")))
			r.HostedTools = tt.hosted
			if tt.functions {
				r.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}
			}
			wantJSON(t, "tools", field(t, r, "tools"), tt.tools)
			warnings := 0
			r.Warn = func(string) { warnings++ }
			wantJSON(t, "toolConfig", field(t, r, "toolConfig"), tt.confg)
			if warnings != tt.warnings {
				t.Errorf("%d warnings, want %d", warnings, tt.warnings)
			}
		})
	}
}

func TestOutputSchema(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"const":"x"}}}`)
	r := of("gemini-2.5-flash", user(text("hi")))
	r.OutputSchema = schema
	wantJSON(t, "generationConfig", field(t, r, "generationConfig"),
		`{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"const":"x"}}}}`)
	r.Model.Compat.Sanitizer = "gemini"
	wantJSON(t, "generationConfig", field(t, r, "generationConfig"),
		`{"responseMimeType":"application/json","responseSchema":{"type":"object","properties":{"a":{"enum":["x"],"type":"string"}}}}`)
	r.Model.Compat.Sanitizer = ""

	r.Tools = []llm.Tool{{Name: "f"}}
	warned := false
	r.Warn = func(string) { warned = true }
	wantJSON(t, "generationConfig beside functions", field(t, r, "generationConfig"), "")
	if !warned {
		t.Error("the schema was left out without a warning")
	}
	r.Model.ID = "gemini-3-pro"
	if got := field(t, r, "generationConfig"); !strings.Contains(got, "responseJsonSchema") {
		t.Errorf("generationConfig = %s, want the schema: generation 3 takes it beside functions", got)
	}
}

func TestOptions(t *testing.T) {
	r := of("gemini-2.5-flash", user(text("hi")))
	r.ServiceTier = "flex"
	r.ProviderOptions = map[string]json.RawMessage{"google": json.RawMessage(`{"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}],
		"labels":{"team":"a"},"mediaResolution":"MEDIA_RESOLUTION_LOW","responseModalities":["TEXT"]}`)}
	wantJSON(t, "safetySettings", field(t, r, "safetySettings"), `[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]`)
	wantJSON(t, "labels", field(t, r, "labels"), `{"team":"a"}`)
	wantJSON(t, "serviceTier", field(t, r, "serviceTier"), `"flex"`)
	wantJSON(t, "generationConfig", field(t, r, "generationConfig"), `{"responseModalities":["TEXT"],"mediaResolution":"MEDIA_RESOLUTION_LOW"}`)

	r.ServiceTier = "auto"
	wantJSON(t, "serviceTier", field(t, r, "serviceTier"), "")
	r.ProviderOptions["google"] = json.RawMessage(`{"serviceTier":"priority"}`)
	wantJSON(t, "serviceTier", field(t, r, "serviceTier"), `"priority"`)

	r.Namespace = "my-vertex"
	r.ProviderOptions["my-vertex"] = json.RawMessage(`{"labels":{"team":"b"}}`)
	wantJSON(t, "serviceTier", field(t, r, "serviceTier"), `"priority"`)
	wantJSON(t, "labels", field(t, r, "labels"), `{"team":"b"}`)

	for options, want := range map[string]string{
		`{"safetySetting":[]}`:            `unknown key "safetySetting"`,
		`{"thinkingConfig":{"budget":1}}`: `unknown key "budget"`,
		`{"labels":1}`:                    "labels",
		`[]`:                              "provider options",
		`{"thinkingConfig":{"thinkingBudget":1,"thinkingLevel":"low"}}`: "a budget and a level",
	} {
		r.ProviderOptions["google"] = json.RawMessage(options)
		wantInvalid(t, r, want)
	}
}

// Cached content holds a system text and tools of its own; beside it they are refused.
func TestCachedContent(t *testing.T) {
	r := of("gemini-2.5-flash", user(text("hi")))
	r.System, r.Tools = []string{"be brief"}, []llm.Tool{{Name: "f"}}
	r.ProviderOptions = map[string]json.RawMessage{"google": json.RawMessage(`{"cachedContent":"cachedContents/x"}`)}
	warned := false
	r.Warn = func(string) { warned = true }
	wantJSON(t, "cachedContent", field(t, r, "cachedContent"), `"cachedContents/x"`)
	for _, f := range []string{"systemInstruction", "tools", "toolConfig"} {
		wantJSON(t, f, field(t, r, f), "")
	}
	if !warned {
		t.Error("the system text was left out without a warning")
	}
}

func TestGoldenBodies(t *testing.T) {
	r := of("gemini-3-pro-preview",
		user(text("What is in the picture? <b>"), &llm.Media{MediaType: "image/png", Data: []byte("png")}),
		assistant(&llm.Reasoning{Text: "look"}), assistant(&llm.Text{Text: "I look.", Metadata: signed("s0")}),
		assistant(&llm.ToolCall{ID: "v1", Name: "read", Namespace: "files", Input: `{"path":"a"}`, Metadata: signed("s1")}),
		assistant(call("v2", "list", `{}`)),
		llm.Message{Role: llm.RoleTool, Parts: []llm.Part{
			&llm.ToolResult{ID: "v1", Name: "read", Namespace: "files", Content: llm.Parts{text("one"), &llm.Media{MediaType: "image/webp", Data: []byte("webp")}}},
			&llm.ToolResult{ID: "v2", Name: "list", IsError: true, Content: llm.Parts{text("no such folder")}},
		}},
		update("The folder is called <b>."), user(text("Go on.")),
	)
	r.Model = protocol.Model{
		ID: "gemini-3-pro-preview", Reasons: true, Efforts: []string{"low", "high"}, Input: []string{"image"}, MaxOutputTokens: 65536,
	}
	r.System = []string{"You are a helper.", "Be brief."}
	r.Tools = []llm.Tool{
		{Name: "read", Namespace: "files", Description: "Reads a file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		{Name: "list", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}
	r.ToolChoice = llm.ToolChoice{Mode: "tool", Name: "read"}
	r.HostedTools = []string{"web_search"}
	r.ReasoningEffort = "medium"
	r.Generation = llm.Generation{
		MaxTokens: new(int64(4096)), Temperature: new(0.5), TopP: new(0.9), TopK: new(int64(40)), FrequencyPenalty: new(0.1),
		PresencePenalty: new(0.2), Seed: new(int64(7)), Stop: []string{"END"},
	}
	r.OutputSchema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)
	protocoltest.Golden(t, "generation-3", gemini.Protocol{}, r)

	r.Model = protocol.Model{
		ID: "gemini-2.5-pro", Reasons: true, BudgetMin: 128, BudgetMax: 32768, Input: []string{"image"}, MaxOutputTokens: 65536,
		Compat: protocol.Compat{Sanitizer: "gemini"},
	}
	protocoltest.Golden(t, "generation-2", gemini.Protocol{}, r)
}
