package table

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/chat"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestTheTableIsComplete(t *testing.T) {
	want := []string{
		"cerebras", "chutes", "cloudflare-gateway", "cloudflare-workers", "deepseek", "fireworks", "groq", "llamacpp", "lmstudio", "mistral",
		"moonshot", "nvidia", "ollama", "openai", "openrouter", "together", "vercel", "vllm", "xai", "zai", "zhipu",
	}
	if got := IDs(); !slices.Equal(got, want) {
		t.Errorf("vendors %q, want %q", got, want)
	}
}

func TestRowsHoldTogether(t *testing.T) {
	variables := map[string]string{}
	for _, id := range IDs() {
		r, ok := Lookup(id)
		if !ok || r.ID != id || r.Name == "" {
			t.Errorf("%s: found %v, id %q, name %q", id, ok, r.ID, r.Name)
		}
		u, err := url.Parse(r.BaseURL)
		switch local := err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1"); {
		case err != nil:
			t.Errorf("%s: %v", id, err)
		case u.Host == "" || u.RawQuery != "" || strings.HasSuffix(u.Path, "/"):
			t.Errorf("%s: the address %s is not one to append a path to", id, r.BaseURL)
		case local != r.Keyless, local != (u.Scheme == "http"):
			t.Errorf("%s: local %v, without a key %v, address %s", id, local, r.Keyless, r.BaseURL)
		}
		for _, p := range r.Places {
			if strings.Count(r.BaseURL, "{"+p+"}") != 1 {
				t.Errorf("%s: the place %q is not in %s", id, p, r.BaseURL)
			}
		}
		if n := strings.Count(r.BaseURL, "{"); n != len(r.Places) {
			t.Errorf("%s: %d places in %s, %d are listed", id, n, r.BaseURL, len(r.Places))
		}
		if r.Keyless != (r.KeyVariable == "") {
			t.Errorf("%s: without a key %v, variable %q", id, r.Keyless, r.KeyVariable)
		}
		if other, ok := variables[r.KeyVariable]; ok && r.KeyVariable != "" {
			t.Errorf("%s and %s share the variable %s, but not their keys", id, other, r.KeyVariable)
		}
		variables[r.KeyVariable] = id
		if r.Catalog != "" {
			if _, ok := catalog.Embedded(r.Catalog); !ok {
				t.Errorf("%s: the catalogue has no %q", id, r.Catalog)
			}
		}
		c := r.Compat
		for _, word := range []struct {
			name, value string
			known       []string
		}{
			{"max tokens field", c.MaxTokensField, []string{"", "max_tokens"}},
			{"effort field", c.EffortField, []string{"", "reasoning", "thinking", "none"}},
			{"tool call ids", c.ToolCallIDs, []string{"", "mistral", "claude", "openai"}},
			{"sanitizer", c.Sanitizer, []string{"", "moonshot", "gemini"}},
			{"reasoning field", c.ReasoningField, []string{"", "reasoning", "reasoning_content", "content"}},
		} {
			if !slices.Contains(word.known, word.value) {
				t.Errorf("%s: %s %q", id, word.name, word.value)
			}
		}
		var body map[string]any
		if c.Body != nil && json.Unmarshal(c.Body, &body) != nil {
			t.Errorf("%s: the body %s is no object", id, c.Body)
		}
	}
	if _, ok := Lookup("nobody"); ok {
		t.Error("a vendor that is not there was found")
	}
}

func TestVendors(t *testing.T) {
	tests := []struct {
		fact string
		is   func(r Row) bool
		who  string
	}{
		{"the limit has its old name", func(r Row) bool { return r.Compat.MaxTokensField == "max_tokens" },
			"cerebras chutes cloudflare-gateway cloudflare-workers deepseek groq mistral moonshot nvidia ollama together zai zhipu"},
		{"store is not known", func(r Row) bool { return r.Compat.NoStore },
			"cerebras chutes cloudflare-gateway cloudflare-workers deepseek groq mistral moonshot nvidia together vercel xai zai zhipu"},
		{"strict is not known", func(r Row) bool { return r.Compat.NoStrict }, "cloudflare-gateway groq moonshot nvidia together zai zhipu"},
		{"reasoning is required", func(r Row) bool { return r.Compat.RequireReasoning }, "deepseek moonshot"},
		{"images are refused", func(r Row) bool { return r.Compat.NoImages }, "deepseek"},
		{"no key", func(r Row) bool { return r.Keyless }, "llamacpp lmstudio ollama vllm"},
	}
	for _, tt := range tests {
		var got []string
		for _, id := range IDs() {
			if r, _ := Lookup(id); tt.is(r) {
				got = append(got, id)
			}
		}
		if s := strings.Join(got, " "); s != tt.who {
			t.Errorf("%s: %s, want %s", tt.fact, s, tt.who)
		}
	}
}

func TestModels(t *testing.T) {
	tests := []struct {
		vendor, model, what string
		is                  func(c protocol.Compat) bool
	}{
		{"openrouter", "anthropic/claude-opus-4.8", "marks everywhere, ids as Claude wants them", func(c protocol.Compat) bool {
			return c.InlineCache && !c.NoToolCache && c.ToolCallIDs == "claude"
		}},
		{"openrouter", "qwen/qwen3-max", "marks, but none on tools", func(c protocol.Compat) bool { return c.InlineCache && c.NoToolCache }},
		{"openrouter", "openai/gpt-5", "no marks, short ids", func(c protocol.Compat) bool { return !c.InlineCache && c.ToolCallIDs == "openai" }},
		{"openrouter", "google/gemini-3-pro", "nothing", func(c protocol.Compat) bool { return !c.InlineCache && c.ToolCallIDs == "" }},
		{"openrouter", "mistralai/devstral-2512", "Mistral's ids, a word between results and the user", func(c protocol.Compat) bool {
			return c.ToolCallIDs == "mistral" && c.AssistantAfterTool
		}},
		{"nobody", "Mixtral-8x7B", "the same at any vendor", func(c protocol.Compat) bool {
			return c.ToolCallIDs == "mistral" && c.AssistantAfterTool
		}},
		{"nobody", "m", "nothing", func(c protocol.Compat) bool { return reflect.ValueOf(c).IsZero() }},
		{"mistral", "magistral-small", "what holds for the vendor", func(c protocol.Compat) bool {
			return c.ToolCallIDs == "mistral" && c.AssistantAfterTool && c.ReasoningField == "content"
		}},
		{"openai", "gpt-4.1", "short ids", func(c protocol.Compat) bool { return c.ToolCallIDs == "openai" }},
		{"zai", "glm-4.5", "calls at once", func(c protocol.Compat) bool { return !c.ToolStream && c.EffortMap == nil }},
		{"zhipu", "glm-4.5-air", "calls at once", func(c protocol.Compat) bool { return !c.ToolStream }},
		{"zai", "glm-4.5-flash", "calls at once", func(c protocol.Compat) bool { return !c.ToolStream }},
		{"zai", "glm-4.5v", "calls at once", func(c protocol.Compat) bool { return !c.ToolStream }},
		{"zai", "glm-4.6", "calls in pieces, thinking is a switch", func(c protocol.Compat) bool { return c.ToolStream && c.EffortMap == nil }},
		{"zai", "glm-5.1", "thinking is a switch", func(c protocol.Compat) bool { return c.EffortField == "thinking" && c.EffortMap == nil }},
		{"zhipu", "glm-5.3-flash", "thinking has degrees", func(c protocol.Compat) bool { return c.ToolStream && c.EffortMap["medium"] == "high" }},
		{"moonshot", "kimi-k2.6", "thinking is a switch", func(c protocol.Compat) bool { return c.EffortField == "thinking" && c.EffortMap == nil }},
		{"moonshot", "kimi-k3", "thinking has degrees", func(c protocol.Compat) bool { return c.EffortField == "" && c.EffortMap["minimal"] == "low" }},
		{"moonshot", "moonshot-v1-8k", "thinking is a switch", func(c protocol.Compat) bool { return c.EffortField == "thinking" }},
		{"groq", "qwen/qwen3.6-27b", "thinking in a field", func(c protocol.Compat) bool { return string(c.Body) == `{"reasoning_format":"parsed"}` }},
		{"groq", "openai/gpt-oss-120b", "no word of the format", func(c protocol.Compat) bool { return c.Body == nil }},
		{"deepseek", "deepseek-v4-pro", "thinking has degrees", func(c protocol.Compat) bool {
			return c.EffortField == "thinking" && c.EffortMap["ultra"] == "max" && c.EffortMap["xhigh"] == "high" && c.EffortMap["minimal"] == "low"
		}},
	}
	for _, tt := range tests {
		if c := For(tt.vendor, tt.model); !tt.is(c) {
			t.Errorf("%s at %s: want %s, got %+v", tt.model, tt.vendor, tt.what, c)
		}
	}
}

func TestVersions(t *testing.T) {
	for model, want := range map[string]numbered{
		"glm-5.2": {5, 2}, "glm-5.10-x": {5, 10}, "glm-5": {5, 0}, "glm-5v-turbo": {5, 0}, "glm-4.5v": {4, 5}, "glm-": {}, "glm-x": {}, "other-5.2": {},
	} {
		if got := version(model, "glm-"); got != want {
			t.Errorf("version of %s is %v, want %v", model, got, want)
		}
	}
	if !(numbered{5, 10}).atLeast(5, 2) || (numbered{4, 9}).atLeast(5, 2) || !(numbered{6, 0}).atLeast(5, 2) {
		t.Error("versions are compared as numbers, part by part")
	}
}

// What a user configures is laid over a row by writing into it.
func TestRowsAreTheCallersOwn(t *testing.T) {
	before := For("deepseek", "deepseek-v4-pro")
	if err := json.Unmarshal([]byte(`{"effort_map":{"low":"x"},"body":{"x":1}}`), new(For("deepseek", "deepseek-v4-pro"))); err != nil {
		t.Fatal(err)
	}
	r, _ := Lookup("openrouter")
	copy(r.Compat.Body, "garbage")
	if got := For("deepseek", "deepseek-v4-pro"); !reflect.DeepEqual(got, before) {
		t.Errorf("deepseek is now %+v", got)
	}
	if c := For("openrouter", "m"); !json.Valid(c.Body) {
		t.Errorf("openrouter's body is now %s", c.Body)
	}
}

// The first body of a thread and one with a call in it, as each vendor gets them.
func TestGoldenBodies(t *testing.T) {
	models := map[string]string{
		"cloudflare-gateway": "anthropic/claude-sonnet-4-5", "cloudflare-workers": "@cf/openai/gpt-oss-120b", "deepseek": "deepseek-v4-pro",
		"fireworks": "accounts/fireworks/models/kimi-k2p6", "groq": "qwen/qwen3.6-27b", "mistral": "magistral-medium-latest", "moonshot": "kimi-k3",
		"openai": "gpt-4.1", "openrouter": "anthropic/claude-opus-4.8", "vercel": "meta/muse-1", "xai": "grok-4.7", "zai": "glm-5.3", "zhipu": "glm-4.5",
	}
	for _, id := range IDs() {
		t.Run(id, func(t *testing.T) {
			model := models[id]
			if model == "" {
				model = "some-model"
			}
			limit, seed := int64(4096), int64(7)
			protocoltest.Golden(t, id, chat.Protocol{}, &protocol.Request{
				Namespace: id, Model: protocol.Model{ID: model, Reasons: true, Compat: For(id, model)},
				Request: &llm.Request{
					Model: model, System: []string{"Be brief."}, ReasoningEffort: "medium", PromptCacheKey: "thread-1", ParallelToolCalls: true,
					Generation: llm.Generation{MaxTokens: &limit, Seed: &seed},
					Tools:      []llm.Tool{{Name: "read", InputSchema: json.RawMessage(`{"type":"object","properties":{"mode":{"enum":["a"]}}}`)}},
					Messages: []llm.Message{
						{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "Hi"}}},
						{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: "Hello."}}},
						{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "Read it."}}},
						{Role: llm.RoleAssistant, Parts: []llm.Part{
							&llm.Reasoning{Text: "Hm.", Metadata: llm.Metadata{id: json.RawMessage(`{"reasoningField":"reasoning_content"}`)}},
							&llm.ToolCall{ID: "call:1", Name: "read", Input: `{"mode":"a"}`},
						}},
						{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "call:1", Content: llm.Parts{&llm.Text{Text: "It."}}}}},
						{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "And?"}}},
					},
				},
			})
		})
	}
}
