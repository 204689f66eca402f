package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// body is the request body. Its fields are always in the same order, for caches that compare bytes.
type body struct {
	Model               string          `json:"model"`
	Messages            []any           `json:"messages"` // *message or named
	Tools               *[]tool         `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	ParallelToolCalls   bool            `json:"parallel_tool_calls,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
	ToolStream          bool            `json:"tool_stream,omitempty"`
	MaxTokens           *int64          `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int64          `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty,omitempty"`
	PresencePenalty     *float64        `json:"presence_penalty,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	RandomSeed          *int64          `json:"random_seed,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	Reasoning           *effort         `json:"reasoning,omitempty"`
	Thinking            *kind           `json:"thinking,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Store               *bool           `json:"store,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	PromptIsolationKey  string          `json:"prompt_cache_isolation_key,omitempty"`
	ServiceTier         string          `json:"service_tier,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type kind struct {
	Type string `json:"type"`
}

type tool struct {
	Type         string   `json:"type"`
	Function     function `json:"function"`
	CacheControl *kind    `json:"cache_control,omitempty"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

type namedTool struct {
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

type responseFormat struct {
	Type       string     `json:"type"`
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Strict *bool           `json:"strict,omitempty"`
	Schema json.RawMessage `json:"schema"`
}

// cached marks a prefix for the vendor's cache.
var cached = &kind{Type: "ephemeral"}

// maxCacheKey is the maximum length of a cache key in characters.
const maxCacheKey = 64

// Body implements [protocol.Protocol].
func (Protocol) Body(r *protocol.Request) ([]byte, error) {
	r = protocol.Normalised(r)
	c := &r.Model.Compat
	b := &body{
		Model: r.Model.ID, Stream: true,
		Temperature: r.Generation.Temperature, TopP: r.Generation.TopP, FrequencyPenalty: r.Generation.FrequencyPenalty,
		PresencePenalty: r.Generation.PresencePenalty, Stop: r.Generation.Stop,
	}
	var marks protocol.Marks
	if c.InlineCache {
		marks = protocol.CacheMarks(r)
	}
	var err error
	if b.Messages, err = messages(r, marks); err != nil {
		return nil, err
	}
	if err := b.tools(r, marks); err != nil {
		return nil, err
	}
	b.limits(r)
	b.effort(r)
	if !c.NoStreamUsage {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if c.Store {
		b.Store = new(bool)
	}
	if len(r.OutputSchema) > 0 {
		b.ResponseFormat = format(r)
	}
	b.cacheKey(r)
	b.ServiceTier = r.ServiceTier
	for _, t := range r.HostedTools {
		r.Warning(fmt.Sprintf("the hosted tool %q was left out: chat completions has none", t))
	}
	raw, err := protocol.Encode(b)
	if err != nil {
		return nil, protocol.Invalid("check schemas and provider options", "the request can't be written as JSON: %v", err)
	}
	for _, o := range []struct {
		overlay json.RawMessage
		what    string
	}{{c.Body, "the body fields of the provider"}, {r.ProviderOptions[r.Namespace], "the provider options " + r.Namespace}} {
		if len(o.overlay) == 0 {
			continue
		}
		if raw, err = merged(raw, o.overlay); err != nil {
			return nil, protocol.Invalid("write them as an object of body fields", "%s are not a JSON object: %v", o.what, err)
		}
	}
	return raw, nil
}

func (b *body) tools(r *protocol.Request, marks protocol.Marks) error {
	c := &r.Model.Compat
	if len(r.Tools) == 0 {
		// Some gateways require the field if the history contains calls; others reject an empty list.
		if !c.NoEmptyTools && speaksOfCalls(r.Messages) {
			b.Tools = &[]tool{}
		}
		return nil
	}
	tools := make([]tool, len(r.Tools))
	for i, t := range r.Tools {
		f := function{Name: protocol.WireName(t.Namespace, t.Name), Description: t.Description, Parameters: parameters(&r.Tools[i], c.Sanitizer)}
		if !c.NoStrict {
			f.Strict = &t.Strict
		}
		tools[i] = tool{Type: "function", Function: f}
	}
	if !c.NoToolCache {
		for _, i := range marks.Tools {
			tools[i].CacheControl = cached
		}
	}
	b.Tools = &tools
	b.ToolStream = c.ToolStream
	// Only true is sent: it has no effect where parallel calls are the default, and some models reject false.
	b.ParallelToolCalls = r.ParallelToolCalls && !c.NoParallelTools
	switch mode := r.ToolChoice.Mode; mode {
	case "":
	case "auto", "none", "required":
		b.ToolChoice = mode
	case "tool":
		t := r.ChosenTool()
		if t == nil {
			return r.InvalidChoice()
		}
		n := namedTool{Type: "function"}
		n.Function.Name = protocol.WireName(t.Namespace, t.Name)
		b.ToolChoice = n
	default:
		return r.InvalidChoice()
	}
	return nil
}

func speaksOfCalls(messages []llm.Message) bool {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				if !p.ProviderExecuted {
					return true
				}
			case *llm.ToolResult:
				if !p.ProviderExecuted {
					return true
				}
			}
		}
	}
	return false
}

// parameters returns the schema of a tool's input.
func parameters(t *llm.Tool, dialect string) json.RawMessage {
	if t.Freeform != nil {
		return protocol.Sanitised(protocol.FreeformSchema(t), dialect)
	}
	return protocol.Sanitised(t.InputSchema, dialect)
}

func (b *body) limits(r *protocol.Request) {
	g := &r.Generation
	if r.Model.Compat.MaxTokensField == "max_tokens" {
		b.MaxTokens = g.MaxTokens
	} else {
		b.MaxCompletionTokens = g.MaxTokens
	}
	if r.Model.Compat.RandomSeed {
		b.RandomSeed = g.Seed
	} else {
		b.Seed = g.Seed
	}
	if g.TopK != nil {
		r.Warning("top_k was left out: chat completions has no such field; if the vendor supports it, set it in the provider options")
	}
}

func (b *body) cacheKey(r *protocol.Request) {
	if r.PromptCacheKey == "" || r.Cache == "none" || !r.Model.Compat.PromptCacheKey {
		return
	}
	key := r.PromptCacheKey
	if runes := []rune(key); len(runes) > maxCacheKey {
		key = string(runes[:maxCacheKey])
	}
	if r.Model.Compat.CacheIsolationKey {
		b.PromptIsolationKey = key
	} else {
		b.PromptCacheKey = key
	}
}

func format(r *protocol.Request) *responseFormat {
	s := jsonSchema{Name: r.OutputSchemaName, Schema: r.OutputSchema}
	if strings.TrimSpace(s.Name) == "" {
		s.Name = "answer"
	}
	if !r.Model.Compat.NoStrict {
		yes := true
		s.Strict = &yes
	}
	return &responseFormat{Type: "json_schema", JSONSchema: s}
}
