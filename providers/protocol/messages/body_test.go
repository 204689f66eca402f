package messages

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sent is a body as a reader of the wire sees it.
type sent struct {
	Messages []map[string]any `json:"messages"`
	Tools    []any            `json:"tools"`
	fields   map[string]json.RawMessage
}

func lowered(t testing.TB, r *protocol.Request) sent {
	t.Helper()
	raw, err := Protocol{}.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	var s sent
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &s.fields); err != nil {
		t.Fatal(err)
	}
	return s
}

// answered is the message that a stream's events make.
func answered(t testing.TB, r *protocol.Request, stream []byte) *llm.Message {
	t.Helper()
	var f llm.Fold
	for _, e := range protocoltest.Events(t, Protocol{}, r, stream) {
		f.Add(e)
	}
	if !f.Done() {
		t.Fatalf("the answer is not complete: %v", f.Err())
	}
	return f.Message()
}

func encoded(t testing.TB, v any) string {
	t.Helper()
	b, err := protocol.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sameJSON(t testing.TB, got any, want string) bool {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(encoded(t, got)), &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err, want)
	}
	return reflect.DeepEqual(g, w)
}

func options(s string) map[string]json.RawMessage {
	if s == "" {
		return nil
	}
	return map[string]json.RawMessage{Namespace: json.RawMessage(s)}
}

func userSays(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}
}

func hostSays(text string) llm.Message {
	return llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: text}}}
}

func modelSays(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

func toolSays(id, text string) llm.Message {
	return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: id, Content: llm.Parts{&llm.Text{Text: text}}}}}
}

func ptr[T any](v T) *T { return &v }

// TestFields checks single fields of a body; "" stands for a field that is not there.
func TestFields(t *testing.T) {
	lookup := llm.Tool{Name: "lookup", Description: "Looks up.", InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)}
	const lookupWire = `{"name":"lookup","description":"Looks up.","input_schema":{"type":"object","properties":{"q":{"type":"string"}}}}`
	tests := []struct {
		name   string
		change func(r *protocol.Request)
		field  string
		want   string
		warns  string
	}{
		{"the model as the vendor calls it", func(r *protocol.Request) { r.Model.ID = "claude-real" }, "model", `"claude-real"`, ""},
		{"the model as the request calls it", nil, "model", `"claude-test"`, ""},
		{"a stream", nil, "stream", `true`, ""},
		{"max_tokens of nobody", nil, "max_tokens", `32000`, ""},
		{"max_tokens of the model", func(r *protocol.Request) { r.Model.MaxOutputTokens = 64000 }, "max_tokens", `64000`, ""},
		{"max_tokens of the request", func(r *protocol.Request) { r.Model.MaxOutputTokens = 64000; r.Generation.MaxTokens = ptr[int64](100) }, "max_tokens", `100`, ""},
		{"more max_tokens than the model has", func(r *protocol.Request) { r.Model.MaxOutputTokens = 64; r.Generation.MaxTokens = ptr[int64](100) }, "max_tokens", `64`, "max_tokens"},
		{"system texts, without blank ones", func(r *protocol.Request) { r.System = []string{"a", " \n", "b"} }, "system",
			`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, ""},
		{"no system", nil, "system", ``, ""},
		{"a cached system text that is kept for an hour", func(r *protocol.Request) {
			r.System, r.Cache, r.ProviderOptions = []string{"a"}, "", options(`{"cache_ttl":"1h"}`)
		}, "system", `[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]`, ""},
		{"a tool", func(r *protocol.Request) { r.Tools = []llm.Tool{lookup} }, "tools", `[` + lookupWire + `]`, ""},
		{"a tool without a schema", func(r *protocol.Request) { r.Tools = []llm.Tool{{Name: "now"}} }, "tools",
			`[{"name":"now","input_schema":{"type":"object","properties":{}}}]`, ""},
		{"a strict tool", func(r *protocol.Request) {
			r.Tools = []llm.Tool{{Name: "f", Strict: true, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}
		}, "tools", `[{"name":"f","input_schema":{"type":"object","properties":{}},"strict":true}]`, ""},
		{"a strict tool where that is unknown", func(r *protocol.Request) {
			r.Model.Compat.NoStrict = true
			r.Tools = []llm.Tool{{Name: "f", Strict: true, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}
		}, "tools", `[{"name":"f","input_schema":{"type":"object","properties":{}}}]`, ""},
		{"a tool of raw text", func(r *protocol.Request) {
			r.Tools = []llm.Tool{{Namespace: "files", Name: "patch", Freeform: &llm.Freeform{Syntax: "lark", Property: "diff"}}}
		}, "tools", `[{"name":"files__patch","input_schema":{"additionalProperties":false,"properties":{"diff":{"type":"string"}},"required":["diff"],"type":"object"}}]`, ""},
		{"the vendor's own choice of tools", func(r *protocol.Request) { r.Tools = []llm.Tool{lookup} }, "tool_choice", ``, ""},
		{"one call at a time", func(r *protocol.Request) { r.Tools, r.ParallelToolCalls = []llm.Tool{lookup}, false }, "tool_choice",
			`{"type":"auto","disable_parallel_tool_use":true}`, ""},
		{"a call that is required, and one at a time", func(r *protocol.Request) {
			r.Tools, r.ParallelToolCalls, r.ToolChoice.Mode = []llm.Tool{lookup}, false, "required"
		}, "tool_choice", `{"type":"any","disable_parallel_tool_use":true}`, ""},
		{"where one at a time is unknown", func(r *protocol.Request) {
			r.Tools, r.ParallelToolCalls, r.Model.Compat.NoParallelTools, r.ToolChoice.Mode = []llm.Tool{lookup}, false, true, "required"
		}, "tool_choice", `{"type":"any"}`, ""},
		{"no call", func(r *protocol.Request) {
			r.Tools, r.ParallelToolCalls, r.ToolChoice.Mode = []llm.Tool{lookup}, false, "none"
		}, "tool_choice", `{"type":"none"}`, ""},
		{"one tool, by its own name", func(r *protocol.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{Namespace: "n", Name: "f"}}, llm.ToolChoice{Mode: "tool", Name: "f"}
		}, "tool_choice", `{"type":"tool","name":"n__f"}`, ""},
		{"a hosted tool", func(r *protocol.Request) {
			r.HostedTools, r.ToolChoice = []string{"web_search"}, llm.ToolChoice{Mode: "tool", Name: "web_search"}
		}, "tool_choice", `{"type":"tool","name":"web_search"}`, ""},
		{"no choice without tools", func(r *protocol.Request) { r.ToolChoice.Mode = "required" }, "tool_choice", ``, ""},
		{"temperature", func(r *protocol.Request) { r.Generation.Temperature = ptr(0.5) }, "temperature", `0.5`, ""},
		{"temperature with thinking", func(r *protocol.Request) { thinkingModel(r, "high"); r.Generation.Temperature = ptr(0.5) }, "temperature", ``, "temperature"},
		{"the only temperature with thinking", func(r *protocol.Request) { thinkingModel(r, "high"); r.Generation.Temperature = ptr(1.0) }, "temperature", ``, ""},
		{"temperature without thinking", func(r *protocol.Request) { thinkingModel(r, ""); r.Generation.Temperature = ptr(0.5) }, "temperature", `0.5`, ""},
		{"top_p with thinking", func(r *protocol.Request) { thinkingModel(r, "high"); r.Generation.TopP = ptr(0.5) }, "top_p", ``, "top_p"},
		{"enough top_p with thinking", func(r *protocol.Request) { thinkingModel(r, "high"); r.Generation.TopP = ptr(0.95) }, "top_p", `0.95`, ""},
		{"top_k with thinking", func(r *protocol.Request) { thinkingModel(r, "high"); r.Generation.TopK = ptr[int64](5) }, "top_k", ``, "top_k"},
		{"top_k", func(r *protocol.Request) { r.Generation.TopK = ptr[int64](5) }, "top_k", `5`, ""},
		{"temperature and top_p", func(r *protocol.Request) { r.Generation.Temperature, r.Generation.TopP = ptr(0.5), ptr(0.9) }, "top_p", ``, "top_p"},
		{"stop sequences", func(r *protocol.Request) { r.Generation.Stop = []string{"END", "\n"} }, "stop_sequences", `["END"]`, "stop"},
		{"penalties", func(r *protocol.Request) { r.Generation.FrequencyPenalty = ptr(0.5) }, "frequency_penalty", ``, "penalties"},
		{"seed", func(r *protocol.Request) { r.Generation.Seed = ptr[int64](1) }, "seed", ``, "seed"},
		{"no user unless told", nil, "metadata", ``, ""},
		{"the user", func(r *protocol.Request) { r.ProviderOptions = options(`{"user_id":"u-1"}`) }, "metadata", `{"user_id":"u-1"}`, ""},
		{"a service tier", func(r *protocol.Request) { r.ServiceTier = "standard_only" }, "service_tier", `"standard_only"`, ""},
		{"another vendor's service tier", func(r *protocol.Request) { r.ServiceTier = "flex" }, "service_tier", ``, "flex"},
		{"speed", func(r *protocol.Request) { r.ProviderOptions = options(`{"speed":"fast"}`) }, "speed", `"fast"`, ""},
		{"a container", func(r *protocol.Request) { r.ProviderOptions = options(`{"container":"c_1"}`) }, "container", `"c_1"`, ""},
		{"no container", func(r *protocol.Request) { r.ProviderOptions = options(`{"container":null}`) }, "container", ``, ""},
		{"context management", func(r *protocol.Request) { r.ProviderOptions = options(`{"context_management":{"edits":[]}}`) }, "context_management", `{"edits":[]}`, ""},
		{"a schema for the answer", func(r *protocol.Request) {
			r.OutputSchema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}, "output_config", `{"format":{"type":"json_schema","schema":{"type":"object","properties":{},"additionalProperties":false}}}`, ""},
		{"options under a name of the vendor's own win", func(r *protocol.Request) {
			r.Namespace, r.ProviderOptions = "acme", map[string]json.RawMessage{Namespace: json.RawMessage(`{"user_id":"a","speed":"fast"}`), "acme": json.RawMessage(`{"user_id":"b"}`)}
		}, "metadata", `{"user_id":"b"}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.change)
			var warned []string
			r.Warn = func(s string) { warned = append(warned, s) }
			got, ok := lowered(t, r).fields[tt.field]
			switch {
			case tt.want == "":
				if ok {
					t.Errorf("%s is %s, want none", tt.field, got)
				}
			case !ok || !sameJSON(t, got, tt.want):
				t.Errorf("%s is %s, want %s", tt.field, got, tt.want)
			}
			if all := strings.Join(warned, "\n"); !strings.Contains(all, tt.warns) || tt.warns == "" && all != "" {
				t.Errorf("warnings %q, want one of %q", all, tt.warns)
			}
		})
	}
}

func TestBodyErrors(t *testing.T) {
	tests := []struct {
		name   string
		change func(r *protocol.Request)
		code   llm.ErrorCode
		want   string
	}{
		{"an unknown option", func(r *protocol.Request) { r.ProviderOptions = options(`{"betta":[]}`) }, llm.ErrInvalidRequest, `provider options "anthropic": unknown key "betta"; did you mean "betas"?`},
		{"an option of the wrong type", func(r *protocol.Request) { r.ProviderOptions = options(`{"betas":"x"}`) }, llm.ErrInvalidRequest, `betas`},
		{"an unknown setting of thinking", func(r *protocol.Request) { r.ProviderOptions = options(`{"thinking":{"tokens":1}}`) }, llm.ErrInvalidRequest, `"tokens"`},
		{"an unknown kind of thinking", func(r *protocol.Request) { r.ProviderOptions = options(`{"thinking":{"type":"deep"}}`) }, llm.ErrInvalidRequest, `"deep"`},
		{"options that are no object", func(r *protocol.Request) { r.ProviderOptions = options(`[]`) }, llm.ErrInvalidRequest, `provider options "anthropic"`},
		{"more than one value", func(r *protocol.Request) { r.ProviderOptions = options(`{} {}`) }, llm.ErrInvalidRequest, `after top-level value`},
		{"an unknown cache time", func(r *protocol.Request) { r.ProviderOptions = options(`{"cache_ttl":"2h"}`) }, llm.ErrInvalidRequest, `"2h"`},
		{"no room for an answer", func(r *protocol.Request) { r.Generation.MaxTokens = ptr[int64](0) }, llm.ErrInvalidRequest, `max tokens are 0`},
		{"an unknown mode of tool choice", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "f"}}, "maybe" }, llm.ErrInvalidRequest, `"maybe"`},
		{"a choice that is not offered", func(r *protocol.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{Name: "f"}}, llm.ToolChoice{Mode: "tool", Name: "g"}
		}, llm.ErrInvalidRequest, `"g"`},
		{"an effort that nobody knows", func(r *protocol.Request) { thinkingModel(r, "heroic") }, llm.ErrInvalidRequest, `"heroic"`},
		{"nothing to answer", func(r *protocol.Request) { r.Messages = nil }, llm.ErrInvalidRequest, `no message`},
		{"nothing but thinking", func(r *protocol.Request) {
			r.Messages = []llm.Message{modelSays(signed("t", "sig"))}
		}, llm.ErrInvalidRequest, `no message`},
		{"audio", media("image", &llm.Media{MediaType: "audio/wav", Data: []byte("x")}), llm.ErrInvalidRequest, `"audio/wav"`},
		{"a huge image", media("image", &llm.Media{MediaType: "image/png", Data: make([]byte, 7<<20), Filename: "big.png"}), llm.ErrPayloadTooLarge, `"big.png"`},
		{"stored content", media("image", &llm.Media{MediaType: "image/png", Artifact: "abc"}), llm.ErrInvalidRequest, `stored content`},
		{"no content", media("image", &llm.Media{MediaType: "image/png"}), llm.ErrInvalidRequest, `no content`},
		{"an address of another kind", media("image", &llm.Media{MediaType: "image/png", URL: "ftp://x"}), llm.ErrInvalidRequest, `address`},
		{"a broken data URL", media("image", &llm.Media{MediaType: "image/png", URL: "data:image/png"}), llm.ErrInvalidRequest, `comma`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.change)
			_, err := Protocol{}.Body(r)
			e, ok := err.(*llm.Error)
			if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.want) {
				t.Errorf("error %v (%T), want %v with %s", err, err, tt.code, tt.want)
			}
			if betas := (Protocol{}).Betas(r); tt.code == llm.ErrInvalidRequest && strings.Contains(tt.name, "option") && betas != nil {
				t.Errorf("betas %v of a request that has no body", betas)
			}
		})
	}
}

func media(modality string, m *llm.Media) func(*protocol.Request) {
	return func(r *protocol.Request) {
		r.Model.Input = []string{modality}
		r.Messages = []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{m}}}
	}
}

func TestMedia(t *testing.T) {
	tests := []struct {
		name     string
		modality string
		media    llm.Media
		noImages bool
		want     string
	}{
		{"an image", "image", llm.Media{MediaType: "image/png", Data: []byte("abc")}, false, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"YWJj"}}`},
		{"an image by another name", "image", llm.Media{MediaType: "image/JPG; q=1", Data: []byte("abc")}, false, `{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"YWJj"}}`},
		{"an image's address", "image", llm.Media{MediaType: "image/png", URL: "https://x.example/a.png"}, false, `{"type":"image","source":{"type":"url","url":"https://x.example/a.png"}}`},
		{"an image in its address", "image", llm.Media{URL: "data:image/webp;base64,YWJj"}, false, `{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"YWJj"}}`},
		{"an image in its address, as text", "image", llm.Media{URL: "data:image/gif,a%62c"}, false, `{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"YWJj"}}`},
		{"an image of a kind that the vendor doesn't read", "image", llm.Media{MediaType: "image/bmp", Data: []byte("abc"), Filename: "a.bmp"}, false,
			`{"type":"text","text":"(an image \"a.bmp\" was left out: the vendor reads jpeg, png, gif and webp, and no image/bmp)"}`},
		{"an image for a blind model", "pdf", llm.Media{MediaType: "image/png", Data: []byte("abc")}, false, `{"type":"text","text":"(an image was left out: the model takes no images)"}`},
		{"an image where none are taken", "image", llm.Media{MediaType: "image/png", Data: []byte("abc")}, true, `{"type":"text","text":"(an image was left out: the model takes no images)"}`},
		{"a document", "pdf", llm.Media{MediaType: "application/pdf", Data: []byte("abc"), Filename: "Übersicht_(final).pdf"}, false,
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"YWJj"},"title":"bersicht (final) pdf"}`},
		{"a document's address", "pdf", llm.Media{MediaType: "application/pdf", URL: "https://x.example/a.pdf"}, false, `{"type":"document","source":{"type":"url","url":"https://x.example/a.pdf"}}`},
		{"a document for a model that reads none", "image", llm.Media{MediaType: "application/pdf", Data: []byte("abc"), Filename: "a.pdf"}, false,
			`{"type":"text","text":"(a document \"a.pdf\" was left out: the model takes no PDF)"}`},
		{"a text", "image", llm.Media{MediaType: "text/markdown", Data: []byte("# A\xff")}, false, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"# A�"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(media(tt.modality, &tt.media))
			r.Model.Compat.NoImages = tt.noImages
			if got := lowered(t, r).Messages[0]["content"].([]any)[0]; !sameJSON(t, got, tt.want) {
				t.Errorf("%s\nwant\n%s", encoded(t, got), tt.want)
			}
			// The same inside a tool's result, where it stays.
			r.Messages = []llm.Message{modelSays(&llm.ToolCall{ID: "t", Name: "f"}), {Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "t", Content: llm.Parts{
				&llm.Text{Text: "see"}, &tt.media,
			}}}}}
			turns := lowered(t, r).Messages
			want := `{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"see"},` + tt.want + `]}`
			if got := turns[2]["content"].([]any)[0]; !sameJSON(t, got, want) {
				t.Errorf("%s\nwant\n%s", encoded(t, got), want)
			}
		})
	}
}

func TestCacheMarks(t *testing.T) {
	r := request(func(r *protocol.Request) {
		r.Cache = ""
		r.System = []string{"a", "b", "c"}
		r.Tools = []llm.Tool{{Name: "f"}, {Name: "g"}}
		r.HostedTools = []string{"web_search"}
		r.Messages = []llm.Message{userSays("1"), modelSays(&llm.Text{Text: "2"}), userSays("3"), modelSays(&llm.Text{Text: "4"}), userSays("5")}
	})
	want := []string{"system.0", "system.2", "messages.2.content.0", "messages.4.content.0"}
	if got := markedPlaces(t, r); !reflect.DeepEqual(got, want) {
		t.Errorf("marks at %v, want %v", got, want)
	}
	r.System = r.System[:1]
	if got := markedPlaces(t, r); len(got) != 3 {
		t.Errorf("with one system text, marks at %v, want 3", got)
	}
	r.Cache = "none"
	if got := markedPlaces(t, r); len(got) != 0 {
		t.Errorf("without a cache, marks at %v", got)
	}
}

// TestMarkOfTheLastMessage checks where in a message its mark goes.
func TestMarkOfTheLastMessage(t *testing.T) {
	image := &llm.Media{MediaType: "image/png", Data: []byte("x")}
	call := &llm.ToolCall{ID: "t", Name: "f"}
	tests := []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"its last text", []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "a"}, &llm.Text{Text: "b"}, image}}}, "messages.0.content.1"},
		{"its last part where there is no text", []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{image, image}}}, "messages.0.content.1"},
		{"a result", []llm.Message{modelSays(call), toolSays("t", "ok")}, "messages.2.content.0"},
		{"never thinking", []llm.Message{userSays("a"), modelSays(signed("t", "sig"))}, "messages.0.content.0"},
		{"a note of the host", []llm.Message{userSays("a"), hostSays("b")}, "messages.0.content.1"},
		{"an answer to go on from", []llm.Message{userSays("a"), modelSays(signed("t", "sig"), &llm.Text{Text: "b"})}, "messages.1.content.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(func(r *protocol.Request) { r.Cache, r.Messages, r.Model.Input = "auto", tt.messages, []string{"image"} })
			if got := markedPlaces(t, r); !reflect.DeepEqual(got, []string{tt.want}) {
				t.Errorf("marks at %v, want %s", got, tt.want)
			}
		})
	}
}

func TestVertex(t *testing.T) {
	p := Protocol{Vertex: true}
	r := request(func(r *protocol.Request) { r.Model.ID = "claude-test@20260101" })
	if got, want := p.Path(r), "/claude-test@20260101:streamRawPredict"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	raw, err := p.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(raw); !strings.HasPrefix(s, `{"anthropic_version":"vertex-2023-10-16","stream":true`) || strings.Contains(s, `"model"`) {
		t.Errorf("body %s", s)
	}
	if got := (Protocol{}).Path(r); got != "/messages" {
		t.Errorf("path %s", got)
	}
	if (Protocol{}).ID() == p.ID() {
		t.Error("both forms have one id")
	}
}

func TestBetas(t *testing.T) {
	tests := []struct {
		name   string
		vertex bool
		change func(r *protocol.Request)
		want   string
	}{
		{"none", false, nil, ""},
		{"those of the options, each once", false, func(r *protocol.Request) { r.ProviderOptions = options(`{"betas":["b-2","b-1"," b-2",""]}`) }, "b-2,b-1"},
		{"thinking between calls", false, func(r *protocol.Request) { budgetModel(r, "high"); r.Tools = []llm.Tool{{Name: "f"}} }, "interleaved-thinking-2025-05-14"},
		{"not on Vertex", true, func(r *protocol.Request) { budgetModel(r, "high"); r.Tools = []llm.Tool{{Name: "f"}} }, ""},
		{"not without tools", false, func(r *protocol.Request) { budgetModel(r, "high") }, ""},
		{"models that decide by themselves need no word", false, func(r *protocol.Request) { thinkingModel(r, "high"); r.Tools = []llm.Tool{{Name: "f"}} }, ""},
		{"efforts before that", false, func(r *protocol.Request) { budgetModel(r, "high"); r.Model.Efforts = []string{"low", "medium", "high"} }, "effort-2025-11-24"},
		{"a cache for an hour", false, func(r *protocol.Request) { r.ProviderOptions = options(`{"cache_ttl":"1h"}`) }, "extended-cache-ttl-2025-04-11"},
		{"context management", false, func(r *protocol.Request) { r.ProviderOptions = options(`{"context_management":{"edits":[]}}`) }, "context-management-2025-06-27"},
		{"fast mode", false, func(r *protocol.Request) { r.ProviderOptions = options(`{"speed":"fast"}`) }, "fast-mode-2026-02-01"},
		{"skills", false, func(r *protocol.Request) {
			r.ProviderOptions = options(`{"container":{"skills":[{"skill_id":"pdf"}]}}`)
		}, "skills-2025-10-02"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.change)
			r.Warn = func(s string) { t.Errorf("warned of %q, which the body does", s) }
			if got := strings.Join(Protocol{Vertex: tt.vertex}.Betas(r), ","); got != tt.want {
				t.Errorf("betas %q, want %q", got, tt.want)
			}
		})
	}
}
