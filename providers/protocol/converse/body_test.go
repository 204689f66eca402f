package converse_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func say(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

func user(parts ...llm.Part) llm.Message      { return say(llm.RoleUser, parts...) }
func assistant(parts ...llm.Part) llm.Message { return say(llm.RoleAssistant, parts...) }
func text(s string) *llm.Text                 { return &llm.Text{Text: s} }

func call(id, name, input string) *llm.ToolCall {
	return &llm.ToolCall{ID: id, Name: name, Input: input}
}

func result(id string, parts ...llm.Part) llm.Message {
	return say(llm.RoleTool, &llm.ToolResult{ID: id, Content: parts})
}

func sealed(words, meta string) *llm.Reasoning {
	return &llm.Reasoning{Text: words, Metadata: llm.Metadata{"bedrock": json.RawMessage(meta)}}
}

func png() *llm.Media { return &llm.Media{MediaType: "image/png", Data: []byte("png")} }

// fields are the body's.
func fields(t testing.TB, r *protocol.Request) map[string]json.RawMessage {
	t.Helper()
	raw, err := format.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t testing.TB, got json.RawMessage, want string) bool {
	t.Helper()
	if want == "" || len(got) == 0 {
		return want == "" && len(got) == 0
	}
	var g, w any
	if json.Unmarshal(got, &g) != nil || json.Unmarshal([]byte(want), &w) != nil {
		t.Fatalf("no JSON: %s or %s", got, want)
	}
	a, _ := json.Marshal(g)
	b, _ := json.Marshal(w)
	return string(a) == string(b)
}

func TestMessages(t *testing.T) {
	t.Parallel()
	pdf := &llm.Media{MediaType: "application/pdf", Data: []byte("pdf"), Filename: "Plan_(2).pdf"}
	for _, tt := range []struct {
		name  string
		model func(*protocol.Model)
		tell  []llm.Message
		want  string
	}{
		{"a question", nil, []llm.Message{user(text("hi"), text(" "), text("<b>"))}, `[{"role":"user","content":[{"text":"hi"},{"text":"<b>"}]}]`},
		{
			"calls side by side, results in one turn", nil,
			[]llm.Message{
				user(text("a")), assistant(text("b"), call("c.1", "f", `{"x":1}`), call("c2", "g", "")), result("c.1", text("1"), png()),
				say(llm.RoleSystem, text("use <b>")), say(llm.RoleTool, &llm.ToolResult{ID: "c2", IsError: true, Content: llm.Parts{text("no")}}), user(text("and?")),
			},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"},{"toolUse":{"toolUseId":"c_1_255b58d8aa3f","name":"f","input":{"x":1}}},{"toolUse":{"toolUseId":"c2","name":"g","input":{}}}]},
			  {"role":"user","content":[{"toolResult":{"toolUseId":"c_1_255b58d8aa3f","content":[{"text":"1"},{"image":{"format":"png","source":{"bytes":"cG5n"}}}]}},
			   {"toolResult":{"toolUseId":"c2","content":[{"text":"no"}],"status":"error"}},{"text":"<system-update>\nuse &lt;b&gt;\n</system-update>"},{"text":"and?"}]}]`,
		},
		{
			"results of models that take them plain", func(m *protocol.Model) { m.Compat.PlainResults = true },
			[]llm.Message{user(text("a")), assistant(call("c", "f", "{}")), say(llm.RoleTool, &llm.ToolResult{ID: "c", IsError: true, Content: llm.Parts{text("1"), png()}})},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},
			  {"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"1"}]}},{"text":"Media in the result of f:"},{"image":{"format":"png","source":{"bytes":"cG5n"}}}]}]`,
		},
		{
			"sealed thoughts go back, others don't", nil,
			[]llm.Message{
				user(text("a")), assistant(sealed("hm", `{"signature":"s"}`), sealed("", `{"redactedData":"eA=="}`), &llm.Reasoning{Text: "whose?"}, text("b"), sealed("late", `{"signature":"t"}`)),
				user(text("c")),
			},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},{"reasoningContent":{"redactedContent":"eA=="}},{"text":"b"}]},
			  {"role":"user","content":[{"text":"c"}]}]`,
		},
		{
			"of another family of models", nil, []llm.Message{user(text("a")), assistant(sealed("hm", `{"signature":"s","model":"other"}`), text("b")), user(text("c"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"}]},{"role":"user","content":[{"text":"c"}]}]`,
		},
		{
			"an answer first and last", nil, []llm.Message{assistant(text("a")), user(text("b")), assistant(text("c"))},
			`[{"role":"user","content":[{"text":"Continue."}]},{"role":"assistant","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"}]},{"role":"assistant","content":[{"text":"c"}]},{"role":"user","content":[{"text":"Continue."}]}]`,
		},
		{
			"documents", nil, []llm.Message{user(pdf), user(pdf, &llm.Media{MediaType: "text/x-go", Data: []byte("go")})},
			`[{"role":"user","content":[{"document":{"format":"pdf","name":"Plan (2) pdf","source":{"bytes":"cGRm"}}},{"document":{"format":"pdf","name":"Plan (2) pdf 2","source":{"bytes":"cGRm"}}},
			  {"document":{"format":"txt","name":"document","source":{"bytes":"Z28="}}},{"text":"See the document."}]}]`,
		},
		{
			"addresses", nil, []llm.Message{user(&llm.Media{MediaType: "image/png", URL: "s3://b/k"}, &llm.Media{MediaType: "image/png", URL: "https://h/x.png"})},
			`[{"role":"user","content":[{"image":{"format":"png","source":{"s3Location":{"uri":"s3://b/k"}}}},{"text":"(an image was left out: the service fetches nothing from the web)"}]}]`,
		},
		{
			"what the model does not take", func(m *protocol.Model) { m.Input = nil },
			[]llm.Message{user(png(), &llm.Media{MediaType: "audio/wav", Data: []byte("x")}, &llm.Media{MediaType: "image/bmp", Data: []byte("x")}, &llm.Media{MediaType: "video/mp4", Data: []byte("x")})},
			`[{"role":"user","content":[{"text":"(an image was left out: the model does not take it)"},{"text":"(a recording was left out: the model does not take it)"},
			  {"text":"(an image was left out: the model does not take it)"},{"text":"(a video was left out: the model does not take it)"}]}]`,
		},
		{"a video", func(m *protocol.Model) { m.Input = []string{"video"} }, []llm.Message{user(&llm.Media{MediaType: "video/mp4", Data: []byte("v")})},
			`[{"role":"user","content":[{"video":{"format":"mp4","source":{"bytes":"dg=="}}}]}]`},
		{
			"what others' hosted tools did, and an answer's picture", nil,
			[]llm.Message{user(text("a")), assistant(&llm.ToolCall{ID: "x", Name: "web_search", ProviderExecuted: true}, &llm.ToolResult{ID: "x", ProviderExecuted: true}, png(), text("b")), user(text("c"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"}]},{"role":"user","content":[{"text":"c"}]}]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request(tt.tell...)
			r.Tools = []llm.Tool{{Name: "f"}}
			if tt.model != nil {
				tt.model(&r.Model)
			}
			if got := fields(t, r)["messages"]; !same(t, got, tt.want) {
				t.Errorf("messages %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	f := llm.Tool{Name: "f", Description: "Does f.", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`), Strict: true}
	const spec = `{"toolSpec":{"name":"f","description":"Does f.","inputSchema":{"json":{"type":"object","properties":{}}},"strict":true}}`
	claude := func(r *protocol.Request) {
		r.Model.Compat.EffortField, r.Model.Reasons, r.Model.Efforts = "thinking", true, []string{"low", "medium", "high", "max"}
	}
	budget := func(r *protocol.Request) {
		r.Model.Compat.EffortField, r.Model.Reasons, r.Model.BudgetMin, r.Model.MaxOutputTokens = "thinking", true, 1024, 64_000
	}
	nova := func(r *protocol.Request) {
		r.Model.Compat.EffortField, r.Model.Reasons, r.Model.Efforts = "reasoning_config", true, []string{"low", "medium", "high"}
	}
	asked := call("c", "gone", "{}")
	for _, tt := range []struct {
		name   string
		change func(r *protocol.Request)
		field  string
		want   string
		warns  string
	}{
		{"nothing else is said", func(*protocol.Request) {}, "inferenceConfig", "", ""},
		{"system text", func(r *protocol.Request) { r.System = []string{"a", " ", "b"} }, "system", `[{"text":"a"},{"text":"b"}]`, ""},
		{"settings", func(r *protocol.Request) {
			r.Generation = llm.Generation{MaxTokens: new(int64(9)), Temperature: new(0.5), TopP: new(0.9), Stop: []string{"END", " "}}
		}, "inferenceConfig", `{"maxTokens":9,"temperature":0.5,"topP":0.9,"stopSequences":["END"]}`, ""},
		{"settings that there are none of", func(r *protocol.Request) {
			r.Generation = llm.Generation{Seed: new(int64(9)), TopK: new(int64(4))}
		}, "inferenceConfig", "", "top_k"},
		{"more than the model writes", func(r *protocol.Request) {
			r.Model.MaxOutputTokens, r.Generation.MaxTokens = 8, new(int64(9))
		}, "inferenceConfig", `{"maxTokens":8}`, "max_tokens"},
		{"a schema", func(r *protocol.Request) {
			r.OutputSchema, r.OutputSchemaName = json.RawMessage(`{"type":"object","properties":{}}`), "the answer"
		}, "outputConfig", `{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"type\":\"object\",\"properties\":{}}","name":"the_answer_a7c9985d"}}}}`, ""},
		{"a service tier", func(r *protocol.Request) { r.ServiceTier = "flex" }, "serviceTier", `{"type":"flex"}`, ""},
		{"the usual service tier", func(r *protocol.Request) { r.ServiceTier = "auto" }, "serviceTier", "", ""},
		{"a service tier of others", func(r *protocol.Request) { r.ServiceTier = "scale" }, "serviceTier", "", "scale"},

		{"no tools", func(*protocol.Request) {}, "toolConfig", "", ""},
		{"a tool", func(r *protocol.Request) { r.Tools = []llm.Tool{f} }, "toolConfig", `{"tools":[` + spec + `]}`, ""},
		{"a tool that must be called", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{f}, "required" }, "toolConfig", `{"tools":[` + spec + `],"toolChoice":{"any":{}}}`, ""},
		{"this tool", func(r *protocol.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{f}, llm.ToolChoice{Mode: "tool", Name: "f"}
		}, "toolConfig", `{"tools":[` + spec + `],"toolChoice":{"tool":{"name":"f"}}}`, ""},
		{"none of them", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{f}, "none" }, "toolConfig", "", ""},
		{"none of them, where the history has calls", func(r *protocol.Request) {
			r.Tools, r.ToolChoice.Mode = []llm.Tool{f}, "none"
			r.Messages = append(r.Messages, assistant(asked))
		}, "toolConfig", `{"tools":[` + spec + `]}`, "none"},
		{"tools that are gone", func(r *protocol.Request) { r.Messages = append(r.Messages, assistant(asked, call("d", "gone", "{}"))) }, "toolConfig",
			`{"tools":[{"toolSpec":{"name":"gone","description":"No longer offered: don't call it.","inputSchema":{"json":{"type":"object","properties":{}}}}}]}`, ""},
		{"text as a function", func(r *protocol.Request) {
			r.Tools = []llm.Tool{{Name: "p", Freeform: &llm.Freeform{Property: "diff"}}}
		}, "toolConfig",
			`{"tools":[{"toolSpec":{"name":"p","inputSchema":{"json":{"type":"object","properties":{"diff":{"type":"string"}},"required":["diff"],"additionalProperties":false}}}}]}`, ""},
		{"a model that knows no strictness", func(r *protocol.Request) { r.Tools, r.Model.Compat.NoStrict = []llm.Tool{f}, true }, "toolConfig",
			`{"tools":[` + strings.Replace(spec, `,"strict":true`, "", 1) + `]}`, ""},
		{"hosted tools", func(r *protocol.Request) { r.HostedTools = []string{"web_search"} }, "toolConfig", "", "web_search"},

		{"marks: system", func(r *protocol.Request) { r.Model.Compat.InlineCache, r.System = true, []string{"a", "b"} }, "system",
			`[{"text":"a"},{"cachePoint":{"type":"default"}},{"text":"b"},{"cachePoint":{"type":"default"}}]`, ""},
		{"marks: tools", func(r *protocol.Request) { r.Model.Compat.InlineCache, r.Tools = true, []llm.Tool{f} }, "toolConfig", `{"tools":[` + spec + `,{"cachePoint":{"type":"default"}}]}`, ""},
		{"marks: tools that take none", func(r *protocol.Request) {
			r.Model.Compat.InlineCache, r.Model.Compat.NoToolCache, r.Tools = true, true, []llm.Tool{f}
		}, "toolConfig", `{"tools":[` + spec + `]}`, ""},
		{"marks: the last message", func(r *protocol.Request) {
			r.Model.Compat.InlineCache = true
			r.ProviderOptions = options(`{"cacheTTL":"1h"}`)
		}, "messages", `[{"role":"user","content":[{"text":"hi"},{"cachePoint":{"type":"default","ttl":"1h"}}]}]`, ""},
		{"marks: a document", func(r *protocol.Request) {
			r.Model.Compat.InlineCache = true
			r.Messages = []llm.Message{user(&llm.Media{MediaType: "application/pdf", Data: []byte("p")})}
		}, "messages", `[{"role":"user","content":[{"document":{"format":"pdf","name":"document","source":{"bytes":"cA=="}}},{"text":"See the document."},{"cachePoint":{"type":"default"}}]}]`, ""},
		{"marks: a message that says nothing", func(r *protocol.Request) {
			r.Model.Compat.InlineCache = true
			r.Messages = append(r.Messages, assistant(text("a")), user(text(" ")))
		}, "messages", `[{"role":"user","content":[{"text":"hi"},{"cachePoint":{"type":"default"}}]},{"role":"assistant","content":[{"text":"a"},{"cachePoint":{"type":"default"}}]},{"role":"user","content":[{"text":"Continue."}]}]`, ""},
		{"marks: no cache", func(r *protocol.Request) { r.Model.Compat.InlineCache, r.System, r.Cache = true, []string{"a"}, "none" }, "system", `[{"text":"a"}]`, ""},

		{"claude: an effort", func(r *protocol.Request) { claude(r); r.ReasoningEffort = "high" }, "additionalModelRequestFields", `{"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`, ""},
		{"claude: off", func(r *protocol.Request) { claude(r); r.ReasoningEffort = "none" }, "additionalModelRequestFields", `{"thinking":{"type":"disabled"}}`, ""},
		{"claude: a budget", func(r *protocol.Request) { budget(r); r.ReasoningEffort, r.Tools = "low", []llm.Tool{f} }, "additionalModelRequestFields",
			`{"thinking":{"type":"enabled","budget_tokens":4096},"anthropic_beta":["interleaved-thinking-2025-05-14"]}`, ""},
		{"claude: the budget is a part of all", func(r *protocol.Request) { budget(r); r.ReasoningEffort = "low" }, "inferenceConfig", `{"maxTokens":64000}`, ""},
		{"claude: a tool that must be called", func(r *protocol.Request) {
			budget(r)
			r.ReasoningEffort, r.Tools, r.ToolChoice.Mode = "low", []llm.Tool{f}, "required"
		}, "additionalModelRequestFields", "", "required tool call"},
		{"claude: thinking that is gone", func(r *protocol.Request) {
			budget(r)
			r.ReasoningEffort, r.Tools = "low", []llm.Tool{f}
			r.Messages = append(r.Messages, assistant(call("c", "f", "{}")), result("c", text("1")))
		}, "additionalModelRequestFields", "", "signed thinking"},
		{"claude: settings beside thinking", func(r *protocol.Request) {
			claude(r)
			r.ReasoningEffort, r.Generation.Temperature = "high", new(0.5)
		}, "inferenceConfig", "", "temperature"},
		{"claude: top_k", func(r *protocol.Request) { claude(r); r.Generation.TopK = new(int64(4)) }, "additionalModelRequestFields", `{"top_k":4}`, ""},
		{"claude: options", func(r *protocol.Request) {
			claude(r)
			r.ProviderOptions = options(`{"thinking":{"type":"adaptive","display":"summarized"}}`)
		}, "additionalModelRequestFields",
			`{"thinking":{"type":"adaptive","display":"summarized"}}`, ""},

		{"nova: an effort", func(r *protocol.Request) {
			nova(r)
			r.ReasoningEffort, r.Generation.MaxTokens = "medium", new(int64(9))
		}, "additionalModelRequestFields", `{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"medium"}}`, ""},
		{"nova: off", func(r *protocol.Request) { nova(r); r.ReasoningEffort = "none" }, "additionalModelRequestFields", `{"reasoningConfig":{"type":"disabled"}}`, ""},
		{"nova: more than there is", func(r *protocol.Request) { nova(r); r.ReasoningEffort = "max" }, "additionalModelRequestFields", `{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"high"}}`, `"max"`},
		{"nova: as much as it can takes no settings", func(r *protocol.Request) {
			nova(r)
			r.ReasoningEffort, r.Generation = "high", llm.Generation{MaxTokens: new(int64(9)), TopK: new(int64(4)), Stop: []string{"END"}}
		}, "inferenceConfig", `{"stopSequences":["END"]}`, "at its highest effort"},
		{"nova: top_k", func(r *protocol.Request) { nova(r); r.Generation.TopK = new(int64(4)) }, "additionalModelRequestFields", `{"inferenceConfig":{"topK":4}}`, ""},
		{"nova: the generation that does not think", func(r *protocol.Request) { nova(r); r.Model.Efforts, r.ReasoningEffort = nil, "high" }, "additionalModelRequestFields", "", `"high"`},

		{"an effort in a word", func(r *protocol.Request) {
			r.Model.Compat.EffortField, r.Model.Efforts, r.ReasoningEffort = "reasoning_effort", []string{"low", "high"}, "medium"
		}, "additionalModelRequestFields", `{"reasoning_effort":"low"}`, `"medium"`},
		{"an effort in the row's word", func(r *protocol.Request) {
			r.Model.Compat.EffortField, r.Model.Compat.EffortMap, r.ReasoningEffort = "reasoning_effort", map[string]string{"max": "deep"}, "max"
		}, "additionalModelRequestFields", `{"reasoning_effort":"deep"}`, ""},
		{"an effort that nobody knows how to tell", func(r *protocol.Request) { r.Model.Efforts, r.ReasoningEffort = []string{"low"}, "low" }, "additionalModelRequestFields", "", "not known how"},

		{"fields of the user's win", func(r *protocol.Request) {
			claude(r)
			r.ReasoningEffort = "low"
			r.ProviderOptions = options(`{"additionalModelRequestFields":{"output_config":{"effort":"max"},"x":1}}`)
		}, "additionalModelRequestFields", `{"thinking":{"type":"adaptive"},"output_config":{"effort":"max"},"x":1}`, ""},
		{"a guardrail", func(r *protocol.Request) {
			r.ProviderOptions = options(`{"guardrailConfig":{"guardrailIdentifier":"g"},"performanceConfig":{"latency":"optimized"},"requestMetadata":{"team":"a"}}`)
		}, "guardrailConfig", `{"guardrailIdentifier":"g"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request(user(text("hi")))
			tt.change(r)
			var warned []string
			r.Warn = func(s string) { warned = append(warned, s) }
			if got := fields(t, r)[tt.field]; !same(t, got, tt.want) {
				t.Errorf("%s is %s, want %s", tt.field, got, tt.want)
			}
			if all := strings.Join(warned, "\n"); tt.warns == "" && all != "" || !strings.Contains(all, tt.warns) {
				t.Errorf("warnings %q, want one of %q", all, tt.warns)
			}
		})
	}
}

func options(s string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"bedrock": json.RawMessage(s)}
}

func TestWhatCanNotBeSent(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(r *protocol.Request){
		`unknown key "cacheTtl"; did you mean "cacheTTL"?`: func(r *protocol.Request) { r.ProviderOptions = options(`{"cacheTtl":"1h"}`) },
		`no cacheTTL "2h"`:        func(r *protocol.Request) { r.ProviderOptions = options(`{"cacheTTL":"2h"}`) },
		`unknown type "deep"`:     func(r *protocol.Request) { r.ProviderOptions = options(`{"thinking":{"type":"deep"}}`) },
		"no message to answer":    func(r *protocol.Request) { r.Messages = nil },
		`no reasoning effort "x"`: func(r *protocol.Request) { r.Model.Efforts, r.ReasoningEffort = []string{"low"}, "x" },
		`names "g"`: func(r *protocol.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{Name: "f"}}, llm.ToolChoice{Mode: "tool", Name: "g"}
		},
		`tool choice "maybe"`: func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "f"}}, "maybe" },
		"stored content": func(r *protocol.Request) {
			r.Messages = []llm.Message{user(&llm.Media{MediaType: "image/png", Artifact: "a"})}
		},
		"written as JSON": func(r *protocol.Request) { r.Generation.Temperature = new(math.NaN()) },
	} {
		r := request(user(text("hi")))
		change(r)
		_, err := format.Body(r)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Code != llm.ErrInvalidRequest || !strings.Contains(e.Message, want) {
			t.Errorf("error %v (%T), want %q", err, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"us.anthropic.claude-haiku-4-5-20251001-v1:0":     "/model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream",
		"arn:aws:bedrock:us-east-1:1:inference-profile/x": "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/converse-stream",
	} {
		r := request()
		r.Model.ID = id
		if got := format.Path(r); got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}
}

// Whatever a history holds, turns alternate from the user's to the user's, and each call is answered in the next turn.
func TestTurnsHoldTogether(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]llm.Message{
		user(text("a")), user(text(" ")), user(png()), assistant(text("b")), assistant(sealed("t", `{"signature":"s"}`)), assistant(call("c1", "f", "{}")),
		assistant(text("x"), call("c2", "f", "{"), call("c3", "g", `[1]`)), result("c1", text("1")), result("c2"), result("c3", png()), result("c9", text("?")), say(llm.RoleSystem, text("n")),
	})
	rapid.Check(t, func(t *rapid.T) {
		r := request(append([]llm.Message{user(text("hi"))}, rapid.SliceOf(part).Draw(t, "history")...)...)
		r.Model.Compat.InlineCache = rapid.Bool().Draw(t, "cache")
		r.Model.Compat.PlainResults = rapid.Bool().Draw(t, "plain")
		raw, err := format.Body(r)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Messages []struct {
				Role    string
				Content []struct {
					ToolUse          *struct{ ToolUseID string }
					ToolResult       *struct{ ToolUseID string }
					ReasoningContent json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		var waiting []string
		for i, m := range body.Messages {
			if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
				t.Fatalf("turn %d is the %s's: %s", i, m.Role, raw)
			}
			var answered, asked []string
			for _, b := range m.Content {
				if b.ToolResult != nil {
					answered = append(answered, b.ToolResult.ToolUseID)
				}
				if b.ToolUse != nil {
					asked = append(asked, b.ToolUse.ToolUseID)
				}
			}
			slices.Sort(answered)
			slices.Sort(asked)
			if !slices.Equal(answered, waiting) {
				t.Fatalf("turn %d answers %q, asked was %q: %s", i, answered, waiting, raw)
			}
			waiting = asked
			if last := m.Content[len(m.Content)-1]; last.ReasoningContent != nil {
				t.Fatalf("turn %d ends in reasoning: %s", i, raw)
			}
		}
		if len(body.Messages)%2 == 0 {
			t.Fatalf("the last turn is not the user's: %s", raw)
		}
	})
}

func TestGoldenBody(t *testing.T) {
	t.Parallel()
	r := request(
		user(text("What is in the picture? <b>"), png()),
		assistant(sealed("look", `{"signature":"c2ln"}`), text("I look."), &llm.ToolCall{ID: "t1", Name: "read", Namespace: "files", Input: `{"path":"a"}`}, call("t2", "list", "{}")),
		say(llm.RoleTool,
			&llm.ToolResult{ID: "t1", Name: "read", Namespace: "files", Content: llm.Parts{text("one"), &llm.Media{MediaType: "image/webp", Data: []byte("webp")}}},
			&llm.ToolResult{ID: "t2", Name: "list", IsError: true, Content: llm.Parts{text("no such folder")}}),
		say(llm.RoleSystem, text("The folder is called <b>.")), user(text("Go on.")),
	)
	r.System = []string{"You are a helper.", "Be brief."}
	r.Tools = []llm.Tool{
		{Name: "read", Namespace: "files", Description: "Reads a file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		{Name: "list", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
		{Name: "patch", Description: "Changes files.", Freeform: &llm.Freeform{Syntax: "lark", Definition: `start: "x"`, Property: "patch"}},
	}
	r.ReasoningEffort = "medium"
	r.Generation = llm.Generation{MaxTokens: new(int64(4096)), Stop: []string{"END"}}
	r.OutputSchema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)
	r.ProviderOptions = options(`{"requestMetadata":{"team":"a"}}`)
	r.Model.Reasons, r.Model.BudgetMin, r.Model.MaxOutputTokens = true, 1024, 64_000
	r.Model.Compat = protocol.Compat{EffortField: "thinking", InlineCache: true}
	protocoltest.Golden(t, "claude", format, r)

	r.Model = protocol.Model{ID: "us.amazon.nova-2-lite-v1:0", Input: []string{"image"}, Reasons: true, Efforts: []string{"low", "medium", "high"}}
	r.Model.Compat = protocol.Compat{EffortField: "reasoning_config", InlineCache: true, NoToolCache: true, NoStrict: true}
	protocoltest.Golden(t, "nova", format, r)

	r.Model = protocol.Model{ID: "meta.llama3-3-70b-instruct-v1:0", MaxOutputTokens: 4096}
	r.Model.Compat = protocol.Compat{PlainResults: true, NoStrict: true}
	r.ReasoningEffort, r.OutputSchema = "", nil
	protocoltest.Golden(t, "llama", format, r)
}
