package converse

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// body is the request body. The model is in the path.
type body struct {
	System                            []block                    `json:"system,omitempty"`
	InferenceConfig                   inferenceConfig            `json:"inferenceConfig,omitzero"`
	ToolConfig                        *toolConfig                `json:"toolConfig,omitempty"`
	OutputConfig                      *outputConfig              `json:"outputConfig,omitempty"`
	AdditionalModelRequestFields      map[string]json.RawMessage `json:"additionalModelRequestFields,omitempty"`
	AdditionalModelResponseFieldPaths []string                   `json:"additionalModelResponseFieldPaths,omitempty"`
	ServiceTier                       *kind                      `json:"serviceTier,omitempty"`
	GuardrailConfig                   json.RawMessage            `json:"guardrailConfig,omitempty"`
	PerformanceConfig                 json.RawMessage            `json:"performanceConfig,omitempty"`
	RequestMetadata                   map[string]string          `json:"requestMetadata,omitempty"`
	Messages                          []turn                     `json:"messages"`
}

type inferenceConfig struct {
	MaxTokens     *int64   `json:"maxTokens,omitempty"`
	Temperature   *float64 `json:"temperature,omitempty"`
	TopP          *float64 `json:"topP,omitempty"`
	StopSequences []string `json:"stopSequences,omitempty"`
}

type kind struct {
	Type string `json:"type"`
}

type outputConfig struct {
	TextFormat textFormat `json:"textFormat"`
}

type textFormat struct {
	Type      string `json:"type"`
	Structure struct {
		JSONSchema jsonSchema `json:"jsonSchema"`
	} `json:"structure"`
}

type jsonSchema struct {
	Schema string `json:"schema"` // as a string
	Name   string `json:"name,omitempty"`
}

// turn is a message on the wire.
type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a part of a turn, of the system text or of a result. Exactly one field is set.
type block struct {
	Text             *string     `json:"text,omitempty"`
	Image            *media      `json:"image,omitempty"`
	Video            *media      `json:"video,omitempty"`
	Document         *media      `json:"document,omitempty"`
	ToolUse          *toolUse    `json:"toolUse,omitempty"`
	ToolResult       *toolResult `json:"toolResult,omitempty"`
	ReasoningContent *reasoning  `json:"reasoningContent,omitempty"`
	CachePoint       *cachePoint `json:"cachePoint,omitempty"`
}

type media struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"` // of a document
	Source source `json:"source"`
}

type source struct {
	Bytes      []byte      `json:"bytes,omitempty"` // base64 on the wire
	S3Location *s3Location `json:"s3Location,omitempty"`
}

type s3Location struct {
	URI string `json:"uri"`
}

type toolUse struct {
	ToolUseID string          `json:"toolUseId"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type toolResult struct {
	ToolUseID string  `json:"toolUseId"`
	Content   []block `json:"content"`
	Status    string  `json:"status,omitempty"` // "error"; omitted on success
}

type reasoning struct {
	ReasoningText   *reasoningText `json:"reasoningText,omitempty"`
	RedactedContent string         `json:"redactedContent,omitempty"` // base64, unchanged
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

type cachePoint struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

func textBlock(s string) block { return block{Text: &s} }

// lowering is the conversion of a request to a body.
type lowering struct {
	*protocol.Request
	opts   Options
	marks  protocol.Marks
	fields map[string]any // model-specific fields
}

// Body implements [protocol.Protocol]. It satisfies the service's requirements for a conversation: roles alternate, the first and
// last turns are the user's, results are at the beginning of their turn, a response does not end with reasoning, and no text is
// blank.
func (Protocol) Body(r *protocol.Request) ([]byte, error) {
	r = withNamespace(r)
	opts, err := optionsOf(r)
	if err != nil {
		return nil, err
	}
	l := &lowering{Request: protocol.Normalised(r), opts: opts, fields: map[string]any{}}
	if l.Model.Compat.InlineCache {
		l.marks = protocol.CacheMarks(l.Request)
	}
	b := &body{
		System: l.system(), OutputConfig: l.outputConfig(), AdditionalModelResponseFieldPaths: opts.AdditionalModelResponseFieldPaths,
		ServiceTier: l.serviceTier(), GuardrailConfig: opts.GuardrailConfig, PerformanceConfig: opts.PerformanceConfig,
		RequestMetadata: opts.RequestMetadata,
	}
	if b.ToolConfig, err = l.tools(); err != nil {
		return nil, err
	}
	generation, err := l.think(r, b.ToolConfig)
	if err != nil {
		return nil, err
	}
	b.InferenceConfig = l.inference(generation)
	if b.AdditionalModelRequestFields, err = l.modelFields(); err != nil {
		return nil, err
	}
	if b.Messages, err = l.history(); err != nil {
		return nil, err
	}
	if len(b.Messages) == 0 {
		return nil, protocol.Invalid("send at least one message with text, media or a tool's result", "the request has no message to answer")
	}
	for _, tool := range l.HostedTools {
		l.Warning("the hosted tool " + tool + " was left out: the service runs none")
	}
	raw, err := protocol.Encode(b)
	if err != nil {
		return nil, protocol.Invalid("check schemas and provider options", "the request can't be written as JSON: %v", err)
	}
	return raw, nil
}

func (l *lowering) cachePoint() block {
	return block{CachePoint: &cachePoint{Type: "default", TTL: l.opts.CacheTTL}}
}

func (l *lowering) system() []block {
	var out []block
	for i, s := range l.System {
		if strings.TrimSpace(s) == "" {
			continue
		}
		out = append(out, textBlock(s))
		if slices.Contains(l.marks.System, i) {
			out = append(out, l.cachePoint())
		}
	}
	return out
}

// inference returns the sampling settings that the service supports itself.
func (l *lowering) inference(g llm.Generation) inferenceConfig {
	c := inferenceConfig{MaxTokens: g.MaxTokens, Temperature: g.Temperature, TopP: g.TopP}
	if most := l.Model.MaxOutputTokens; c.MaxTokens != nil && most > 0 && *c.MaxTokens > most {
		l.Warning("max_tokens exceeds the model's maximum output; using the maximum")
		c.MaxTokens = &most
	}
	for _, s := range g.Stop {
		if strings.TrimSpace(s) != "" {
			c.StopSequences = append(c.StopSequences, s)
		}
	}
	if g.FrequencyPenalty != nil || g.PresencePenalty != nil || g.Seed != nil {
		l.Warning("frequency and presence penalties and the seed were left out: the service has none; " +
			"model-specific settings belong in additionalModelRequestFields")
	}
	return c
}

// modelFields returns the model-specific fields. Those in the options override ours.
func (l *lowering) modelFields() (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for name, v := range l.fields {
		raw, err := protocol.Encode(v)
		if err != nil {
			return nil, protocol.Invalid("", "the field %s of the model can't be written as JSON: %v", name, err)
		}
		out[name] = raw
	}
	for name, raw := range l.opts.AdditionalModelRequestFields {
		out[name] = raw
	}
	return out, nil
}

func (l *lowering) outputConfig() *outputConfig {
	if len(l.OutputSchema) == 0 {
		return nil
	}
	var c outputConfig
	c.TextFormat.Type = "json_schema"
	s := &c.TextFormat.Structure.JSONSchema
	s.Schema = string(protocol.Sanitised(l.OutputSchema, l.Model.Compat.Sanitizer))
	if l.OutputSchemaName != "" {
		s.Name = protocol.WireName("", l.OutputSchemaName)
	}
	return &c
}

func (l *lowering) serviceTier() *kind {
	switch l.ServiceTier {
	case "", "auto":
		return nil
	case "default", "flex", "priority", "reserved":
		return &kind{l.ServiceTier}
	}
	l.Warning(`service tier "` + l.ServiceTier + `" was left out: the service knows default, flex, priority and reserved`)
	return nil
}
