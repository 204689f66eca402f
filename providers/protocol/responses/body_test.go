package responses_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func say(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

func user(parts ...llm.Part) llm.Message      { return say(llm.RoleUser, parts...) }
func assistant(parts ...llm.Part) llm.Message { return say(llm.RoleAssistant, parts...) }
func tool(parts ...llm.Part) llm.Message      { return say(llm.RoleTool, parts...) }

func words(s string) *llm.Text { return &llm.Text{Text: s} }

func own(object string) llm.Metadata { return llm.Metadata{"openai": json.RawMessage(object)} }

// png is as much of a picture as a body needs.
func png() *llm.Media { return &llm.Media{MediaType: "image/png", Data: []byte("PNG")} }

const pngURL = `"data:image/png;base64,UE5H"`

// thinker is a model that reasons and takes all that the format has.
func thinker() protocol.Model {
	return protocol.Model{
		ID: "gpt-x", Reasons: true, Efforts: []string{"low", "medium", "high"}, Freeform: true, Verbosity: true, Input: []string{"image", "pdf"},
		MaxOutputTokens: 128_000,
	}
}

// lower makes a body. set changes a request of one user message.
func lower(t *testing.T, set func(r *protocol.Request)) (body map[string]json.RawMessage, warnings []string) {
	t.Helper()
	r := request()
	r.Model = thinker()
	r.Messages = []llm.Message{user(words("hi"))}
	r.Warn = func(s string) { warnings = append(warnings, s) }
	set(r)
	b, err := (responses.Protocol{}).Body(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &body); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return body, warnings
}

func TestTheWholeOfASmallBody(t *testing.T) {
	t.Parallel()
	r := request()
	r.Model = protocol.Model{ID: "gpt-x", Reasons: true}
	r.System = []string{"a", "b"}
	r.Messages = []llm.Message{user(words("hi <b>"))}
	got, err := (responses.Protocol{}).Body(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"gpt-x","stream":true,"instructions":"a\nb","input":[{"role":"user","content":[{"type":"input_text","text":"hi <b>"}]}],` +
		`"reasoning":{"summary":"auto"},"store":false,"include":["reasoning.encrypted_content"]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAModelOfWhichNothingIsKnown(t *testing.T) {
	t.Parallel()
	r := request()
	r.Request.Model = "mystery"
	got, err := (responses.Protocol{}).Body(r)
	if want := `{"model":"mystery","stream":true,"input":[],"store":false}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// fields are settings of a request and what they do to single fields of the body. "" stands for a field that is left out.
var fields = []struct {
	name    string
	set     func(r *protocol.Request)
	want    map[string]string
	warning string
}{
	{"sampling", func(r *protocol.Request) {
		r.Generation = llm.Generation{MaxTokens: new(int64(9)), Temperature: new(0.5), TopP: new(0.9)}
	}, map[string]string{"max_output_tokens": `9`, "temperature": `0.5`, "top_p": `0.9`}, ""},
	{"more tokens than the model writes", func(r *protocol.Request) { r.Generation.MaxTokens = new(int64(1_000_000)) },
		map[string]string{"max_output_tokens": `128000`}, "max tokens 1000000 was reduced to 128000"},
	{"settings that the format lacks", func(r *protocol.Request) {
		r.Generation = llm.Generation{TopK: new(int64(1)), FrequencyPenalty: new(1.0), PresencePenalty: new(1.0), Seed: new(int64(1)), Stop: []string{"x"}}
	}, map[string]string{"stop": "", "seed": ""}, "top k, frequency penalty, presence penalty, seed, stop sequences left out"},

	{"an effort", func(r *protocol.Request) { r.ReasoningEffort = "high" }, map[string]string{"reasoning": `{"effort":"high","summary":"auto"}`}, ""},
	{"an effort above the model's", func(r *protocol.Request) { r.ReasoningEffort = "ultra" },
		map[string]string{"reasoning": `{"effort":"high","summary":"auto"}`}, `"ultra" became "high"`},
	{"an effort between the model's", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Efforts = "xhigh", []string{"low", "max"} },
		map[string]string{"reasoning": `{"effort":"low","summary":"auto"}`}, `"xhigh" became "low"`},
	{"an effort below the model's", func(r *protocol.Request) { r.ReasoningEffort = "none" },
		map[string]string{"reasoning": `{"effort":"low","summary":"auto"}`}, `"none" became "low"`},
	{"an effort in the vendor's word", func(r *protocol.Request) {
		r.ReasoningEffort, r.Model.Compat.EffortMap = "xhigh", map[string]string{"xhigh": "deep"}
	}, map[string]string{"reasoning": `{"effort":"deep","summary":"auto"}`}, ""},
	{"a mapped effort that another falls to", func(r *protocol.Request) {
		r.ReasoningEffort, r.Model.Compat.EffortMap = "max", map[string]string{"high": "deep"}
	}, map[string]string{"reasoning": `{"effort":"deep","summary":"auto"}`}, `"max" became "high"`},
	{"an effort nobody knows", func(r *protocol.Request) { r.ReasoningEffort = "cosy" },
		map[string]string{"reasoning": `{"summary":"auto"}`}, `"cosy" left out`},
	{"an effort of its own", func(r *protocol.Request) { r.ReasoningEffort, r.Model.Efforts = "cosy", []string{"cosy"} },
		map[string]string{"reasoning": `{"effort":"cosy","summary":"auto"}`}, ""},
	{"an effort for a model without reasoning", func(r *protocol.Request) { r.ReasoningEffort, r.Model = "low", protocol.Model{ID: "m"} },
		map[string]string{"reasoning": "", "include": ""}, `"low" left out`},
	{"no summary", func(r *protocol.Request) { options(r, "openai", `{"reasoning_summary":"none"}`) }, map[string]string{"reasoning": ""}, ""},
	{"another summary", func(r *protocol.Request) { options(r, "openai", `{"reasoning_summary":"detailed"}`) },
		map[string]string{"reasoning": `{"summary":"detailed"}`}, ""},

	{"verbosity of its own accord", func(*protocol.Request) {}, map[string]string{"text": `{"verbosity":"low"}`}, ""},
	{"verbosity", func(r *protocol.Request) { options(r, "openai", `{"text_verbosity":"high"}`) }, map[string]string{"text": `{"verbosity":"high"}`}, ""},
	{"verbosity for a model without", func(r *protocol.Request) {
		r.Model.Verbosity = false
		options(r, "openai", `{"text_verbosity":"low"}`)
	}, map[string]string{"text": ""}, `text_verbosity "low" left out`},
	{"an output schema", func(r *protocol.Request) { r.OutputSchema = json.RawMessage(`{"type":"object"}`) },
		map[string]string{"text": `{"verbosity":"low","format":{"type":"json_schema","name":"output","strict":true,"schema":{"type":"object"}}}`}, ""},
	{"an output schema with a name, not strict", func(r *protocol.Request) {
		r.OutputSchema, r.OutputSchemaName = json.RawMessage(`{}`), "weather_report"
		options(r, "openai", `{"strict_output":false}`)
	}, map[string]string{"text": `{"verbosity":"low","format":{"type":"json_schema","name":"weather_report","strict":false,"schema":{}}}`}, ""},
	{"an output schema where strict is unknown", func(r *protocol.Request) {
		r.OutputSchema, r.Model.Compat.NoStrict = json.RawMessage(`{}`), true
	}, map[string]string{"text": `{"verbosity":"low","format":{"type":"json_schema","name":"output","schema":{}}}`}, ""},

	{"a cache key", func(r *protocol.Request) { r.PromptCacheKey = strings.Repeat("é", 65) },
		map[string]string{"prompt_cache_key": `"` + strings.Repeat("é", 64) + `"`}, ""},
	{"no cache", func(r *protocol.Request) {
		r.PromptCacheKey, r.Cache = "thread", "none"
		options(r, "openai", `{"prompt_cache_retention":"24h","prompt_cache_options":{"mode":"explicit"}}`)
	}, map[string]string{"prompt_cache_key": "", "prompt_cache_retention": "", "prompt_cache_options": ""}, ""},
	{"a tier", func(r *protocol.Request) { r.ServiceTier = "flex" }, map[string]string{"service_tier": `"flex"`}, ""},
	{"a tier of the options", func(r *protocol.Request) {
		r.ServiceTier = "flex"
		options(r, "openai", `{"service_tier":"priority"}`)
	}, map[string]string{"service_tier": `"priority"`}, ""},
	{"the vendor keeps the answer", func(r *protocol.Request) { options(r, "openai", `{"store":true}`) }, map[string]string{"store": `true`}, ""},
	{"a vendor that knows no store", func(r *protocol.Request) { r.Model.Compat.NoStore = true }, map[string]string{"store": ""}, ""},
	{"more to include", func(r *protocol.Request) {
		options(r, "openai", `{"include":["web_search_call.results","reasoning.encrypted_content","web_search_call.results"]}`)
	}, map[string]string{"include": `["reasoning.encrypted_content","web_search_call.results"]`}, ""},
	{"the vendor's own namespace wins", func(r *protocol.Request) {
		r.Namespace = "azure"
		options(r, "openai", `{"truncation":"auto","user":"u"}`)
		options(r, "azure", `{"truncation":"disabled"}`)
	}, map[string]string{"truncation": `"disabled"`, "user": `"u"`}, ""},
	{"options of another vendor", func(r *protocol.Request) { options(r, "google", `{"truncation":"auto"}`) }, map[string]string{"truncation": ""}, ""},
	{"everything else", func(r *protocol.Request) {
		options(r, "openai", `{"metadata":{"k":"v"},"max_tool_calls":3,"safety_identifier":"s","prompt_cache_retention":"24h",
			"prompt_cache_options":{"mode":"explicit","ttl":"1h"},"context_management":[{"type":"compaction","compact_threshold":9}],"top_logprobs":2,
			"previous_response_id":"resp_0","conversation":"conv_1","background":true,"stream_options":{"include_obfuscation":false}}`)
	}, map[string]string{
		"metadata": `{"k":"v"}`, "max_tool_calls": `3`, "safety_identifier": `"s"`, "prompt_cache_retention": `"24h"`,
		"prompt_cache_options": `{"mode":"explicit","ttl":"1h"}`, "context_management": `[{"type":"compaction","compact_threshold":9}]`,
		"top_logprobs": `2`, "previous_response_id": `"resp_0"`, "conversation": `"conv_1"`, "background": `true`,
		"stream_options": `{"include_obfuscation":false}`,
	}, ""},

	{"no tools", func(r *protocol.Request) { r.ToolChoice.Mode, r.ParallelToolCalls = "required", true },
		map[string]string{"tools": "", "tool_choice": "", "parallel_tool_calls": ""}, ""},
	{"a function", func(r *protocol.Request) { r.Tools, r.ParallelToolCalls = []llm.Tool{look()}, true }, map[string]string{
		"tools":       `[{"type":"function","name":"look","description":"Look up.","parameters":{"type":"object","properties":{"q":{"type":"string"}}},"strict":false}]`,
		"tool_choice": `"auto"`, "parallel_tool_calls": `true`,
	}, ""},
	{"a strict function, one call at a time", func(r *protocol.Request) {
		r.Tools = []llm.Tool{look()}
		r.Tools[0].Strict = true
	}, map[string]string{
		"tools":               `[{"type":"function","name":"look","description":"Look up.","parameters":{"type":"object","properties":{"q":{"type":"string"}}},"strict":true}]`,
		"parallel_tool_calls": `false`,
	}, ""},
	{"a vendor that knows neither strict nor parallel calls", func(r *protocol.Request) {
		r.Tools, r.Model.Compat = []llm.Tool{look()}, protocol.Compat{NoStrict: true, NoParallelTools: true}
	}, map[string]string{
		"tools":               `[{"type":"function","name":"look","description":"Look up.","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}]`,
		"parallel_tool_calls": "",
	}, ""},
	{"a grammar", func(r *protocol.Request) { r.Tools = []llm.Tool{patch()} }, map[string]string{
		"tools": `[{"type":"custom","name":"apply_patch","description":"Patch.","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}}]`,
	}, ""},
	{"raw text", func(r *protocol.Request) { r.Tools = []llm.Tool{{Name: "say", Freeform: &llm.Freeform{}}} },
		map[string]string{"tools": `[{"type":"custom","name":"say","format":{"type":"text"}}]`}, ""},
	{"a grammar for a model that takes none", func(r *protocol.Request) { r.Tools, r.Model.Freeform = []llm.Tool{patch()}, false }, map[string]string{
		"tools": `[{"type":"function","name":"apply_patch","description":"Patch.","parameters":{"type":"object","properties":{"patch":{"type":"string","description":"Text that follows this lark grammar:\nstart: /.+/"}},"required":["patch"],"additionalProperties":false},"strict":false}]`,
	}, ""},
	{"tools under a name", func(r *protocol.Request) {
		r.Tools = []llm.Tool{{Name: "f", Namespace: "db", InputSchema: anything}, {Name: "g", InputSchema: anything}}
	}, map[string]string{
		"tools": `[{"type":"function","name":"db__f","parameters":{"type":"object","properties":{}},"strict":false},{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}]`,
	}, ""},
	{"tools under a name, where the vendor groups them", func(r *protocol.Request) {
		r.Model.Compat = protocol.Compat{NativeNamespaces: true, NoStrict: true}
		r.Tools = []llm.Tool{
			{Name: "f", Namespace: "db", InputSchema: anything}, {Name: "g", InputSchema: anything}, {Name: "h", Namespace: "db", InputSchema: anything},
			{Name: "say", Namespace: "db", Freeform: &llm.Freeform{}},
		}
	}, map[string]string{
		"tools": `[{"type":"namespace","name":"db","description":"The tools of db.","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}},{"type":"function","name":"h","parameters":{"type":"object","properties":{}}}]},` +
			`{"type":"function","name":"g","parameters":{"type":"object","properties":{}}},{"type":"custom","name":"db__say","format":{"type":"text"}}]`,
	}, ""},
	{"the description of a group of tools", func(r *protocol.Request) {
		r.Model.Compat = protocol.Compat{NativeNamespaces: true, NoStrict: true}
		r.Tools, r.Namespaces = []llm.Tool{{Name: "f", Namespace: "db", InputSchema: anything}}, map[string]string{"db": "It keeps tables.", "other": "x"}
	}, map[string]string{
		"tools": `[{"type":"namespace","name":"db","description":"It keeps tables.","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]}]`,
	}, ""},
	{"no tool may be used", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{look()}, "none" }, map[string]string{"tool_choice": `"none"`}, ""},
	{"some tool must be used", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{look()}, "required" }, map[string]string{"tool_choice": `"required"`}, ""},
	{"one function must be used", func(r *protocol.Request) {
		r.Tools, r.ToolChoice = []llm.Tool{{Name: "f", Namespace: "db", InputSchema: anything}}, llm.ToolChoice{Mode: "tool", Name: "f"}
	}, map[string]string{"tool_choice": `{"type":"function","name":"db__f"}`}, ""},
	{"one grammar tool must be used", func(r *protocol.Request) {
		r.Tools, r.ToolChoice = []llm.Tool{patch()}, llm.ToolChoice{Mode: "tool", Name: "apply_patch"}
	}, map[string]string{"tool_choice": `{"type":"custom","name":"apply_patch"}`}, ""},
	{"one hosted tool must be used", func(r *protocol.Request) {
		r.HostedTools, r.ToolChoice = []string{"web_search"}, llm.ToolChoice{Mode: "tool", Name: "web_search"}
	}, map[string]string{"tool_choice": `{"type":"web_search"}`}, ""},

	{"hosted tools", func(r *protocol.Request) {
		r.HostedTools = []string{"web_search", "image_generation", "code_interpreter"}
	},
		map[string]string{"tools": `[{"type":"web_search"},{"type":"image_generation"},{"type":"code_interpreter","container":{"type":"auto"}}]`}, ""},
	{"hosted tools with settings", func(r *protocol.Request) {
		r.HostedTools = []string{"web_search", "file_search", "code_interpreter"}
		options(r, "openai", `{"hosted_tools":{"web_search":{"external_web_access":false,"filters":{"allowed_domains":["x.org"]},"user_location":{"country":"NZ"},"search_context_size":"low"},
			"file_search":{"vector_store_ids":["vs_1"]},"image_generation":{"size":"big"},"code_interpreter":{"x":1}}}`)
	}, map[string]string{"tools": `[{"type":"web_search","external_web_access":false,"filters":{"allowed_domains":["x.org"]},"user_location":{"type":"approximate","country":"NZ"},"search_context_size":"low"},` +
		`{"type":"file_search","vector_store_ids":["vs_1"]},{"type":"code_interpreter","container":{"type":"auto"},"x":1}]`}, ""},
}

var anything = json.RawMessage(`{"type":"object","properties":{}}`)

func look() llm.Tool {
	return llm.Tool{Name: "look", Description: "Look up.", InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)}
}

func patch() llm.Tool {
	return llm.Tool{Name: "apply_patch", Description: "Patch.", Freeform: &llm.Freeform{Syntax: "lark", Definition: "start: /.+/", Property: "patch"}}
}

func options(r *protocol.Request, namespace, object string) {
	if r.ProviderOptions == nil {
		r.ProviderOptions = map[string]json.RawMessage{}
	}
	r.ProviderOptions[namespace] = json.RawMessage(object)
}

func TestFields(t *testing.T) {
	t.Parallel()
	for _, tc := range fields {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			body, warnings := lower(t, tc.set)
			for field, want := range tc.want {
				if got := string(body[field]); got != want {
					t.Errorf("%s\ngot  %s\nwant %s", field, got, want)
				}
			}
			if all := strings.Join(warnings, "\n"); tc.warning == "" && all != "" || !strings.Contains(all, tc.warning) {
				t.Errorf("warnings: %q, want %q", all, tc.warning)
			}
		})
	}
}

func TestWhatCanNotBeSent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		set        func(r *protocol.Request)
	}{
		{"an unknown option", `provider options "openai": unknown key "text_verbositi"; did you mean "text_verbosity"?`,
			func(r *protocol.Request) { options(r, "openai", `{"user":"u","text_verbositi":"low"}`) }},
		{"an option in another style", `unknown key "maxToolCalls"; did you mean "max_tool_calls"?`,
			func(r *protocol.Request) { options(r, "openai", `{"maxToolCalls":1}`) }},
		{"an unknown option of the vendor's own", `provider options "azure": unknown key "stor"; did you mean "store"?`,
			func(r *protocol.Request) { r.Namespace = "azure"; options(r, "azure", `{"stor":true}`) }},
		{"an option of the wrong type", `provider options "openai": max_tool_calls: expected a value of type int64 instead of string`,
			func(r *protocol.Request) { options(r, "openai", `{"max_tool_calls":"3"}`) }},
		{"options that are no object", `provider options "openai": a JSON object is needed`, func(r *protocol.Request) { options(r, "openai", `[1]`) }},
		{"an unknown setting of the search", `hosted_tools: web_search: unknown key "filter"; did you mean "filters"?`, func(r *protocol.Request) {
			r.HostedTools = []string{"web_search"}
			options(r, "openai", `{"hosted_tools":{"web_search":{"filter":{}}}}`)
		}},
		{"settings of a hosted tool that are no object", `hosted_tools: shell: a JSON object is needed`, func(r *protocol.Request) {
			r.HostedTools = []string{"shell"}
			options(r, "openai", `{"hosted_tools":{"shell":3}}`)
		}},
		{"a hosted tool without what it needs", `the hosted tool file_search can't run without the setting "vector_store_ids"`,
			func(r *protocol.Request) { r.HostedTools = []string{"file_search"} }},
		{"a choice of no tool", `the tool choice names "moon", which the request does not offer`,
			func(r *protocol.Request) {
				r.Tools, r.ToolChoice = []llm.Tool{look()}, llm.ToolChoice{Mode: "tool", Name: "moon"}
			}},
		{"an unknown choice", `unknown tool choice "maybe"`, func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{look()}, "maybe" }},
		{"content that was not fetched", `an image "x.png" is a reference to stored content`,
			func(r *protocol.Request) {
				r.Messages = []llm.Message{user(&llm.Media{MediaType: "image/png", Artifact: "ab", Filename: "x.png"})}
			}},
		{"media without content", `an image has no content`,
			func(r *protocol.Request) { r.Messages = []llm.Message{user(&llm.Media{MediaType: "image/png"})} }},
		{"a schema that is no JSON", `the request can't be written as JSON`, func(r *protocol.Request) { r.OutputSchema = json.RawMessage(`{`) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := request()
			r.Model = thinker()
			tc.set(r)
			_, err := (responses.Protocol{}).Body(r)
			e, ok := err.(*llm.Error)
			if !ok || e.Code != llm.ErrInvalidRequest || !strings.Contains(e.Message, tc.want) {
				t.Errorf("error %v (%T), want %q", err, err, tc.want)
			}
		})
	}
}

func TestTheSameRequestGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	r := request()
	r.Model = thinker()
	r.Tools = []llm.Tool{look(), patch()}
	options(r, "openai", `{"metadata":{"b":"2","a":"1","d":"4","c":"3"}}`)
	r.Messages = mixedHistory()
	var first []byte
	for range 20 {
		b, err := (responses.Protocol{}).Body(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if !bytes.Equal(b, first) {
			t.Fatalf("got  %s\nand  %s", first, b)
		}
	}
}
