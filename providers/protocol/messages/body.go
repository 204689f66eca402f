package messages

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// defaultMaxTokens is the maximum output of an unknown model. The format requires a value.
const defaultMaxTokens = 32_000

// body is the request body. The parts that are equal in all requests of a thread come first and the messages last, so that a
// longer history only appends bytes.
type body struct {
	AnthropicVersion  string           `json:"anthropic_version,omitempty"`
	Model             string           `json:"model,omitempty"`
	Stream            bool             `json:"stream"`
	MaxTokens         int64            `json:"max_tokens"`
	Thinking          *claude.Thinking `json:"thinking,omitempty"`
	OutputConfig      *outputConfig    `json:"output_config,omitempty"`
	Temperature       *float64         `json:"temperature,omitempty"`
	TopP              *float64         `json:"top_p,omitempty"`
	TopK              *int64           `json:"top_k,omitempty"`
	StopSequences     []string         `json:"stop_sequences,omitempty"`
	Metadata          *metadata        `json:"metadata,omitempty"`
	ServiceTier       string           `json:"service_tier,omitempty"`
	Speed             string           `json:"speed,omitempty"`
	Container         json.RawMessage  `json:"container,omitempty"`
	ContextManagement json.RawMessage  `json:"context_management,omitempty"`
	ToolChoice        *toolChoice      `json:"tool_choice,omitempty"`
	Tools             []any            `json:"tools,omitempty"` // hosted ones first: json.RawMessage and *tool
	System            []*textBlock     `json:"system,omitempty"`
	Messages          []turn           `json:"messages"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

// lowering is the conversion of a request to a body.
type lowering struct {
	*protocol.Request
	opts   Options
	choice *toolChoice
	hosted []string // versions of the hosted tools
}

func lower(r *protocol.Request) (*lowering, error) {
	opts, err := optionsOf(r)
	if err != nil {
		return nil, err
	}
	return &lowering{Request: r, opts: opts}, nil
}

// Body implements [protocol.Protocol]. The history must contain something to respond to. It satisfies the vendor's requirements
// for the messages:
//
//   - Consecutive messages of a role are merged, with tool results first.
//   - The first message is the user's: a short one precedes a response at the beginning.
//   - The last message is the user's too, because current models do not continue partial responses. The exception is a response that the vendor paused and will continue.
//   - A response does not end with thinking, and one that only consists of thinking is omitted.
func (p Protocol) Body(r *protocol.Request) ([]byte, error) {
	r = withNamespace(r)
	l, err := lower(protocol.Normalised(r))
	if err != nil {
		return nil, err
	}
	b, err := l.settings()
	if err != nil {
		return nil, err
	}
	if claude.Lost(r, b.Thinking) {
		b.Thinking = nil
		l.Warning("the signed thinking before the pending tool call is gone, so the model answers without thinking")
	}
	l.sampling(b)
	if p.Vertex {
		b.AnthropicVersion = vertexVersion
	} else {
		b.Model = modelID(r)
	}
	marks := protocol.CacheMarks(l.Request)
	l.markTools(b, marks.Tools)
	b.System = l.system(marks.System)
	if b.Messages, err = l.history(marks.Messages, b.Thinking.On()); err != nil {
		return nil, err
	}
	if len(b.Messages) == 0 {
		return nil, protocol.Invalid("send at least one message with text, media or a tool's result", "the request has no message to answer")
	}
	return protocol.Encode(b)
}

// settings sets everything that does not depend on the history.
func (l *lowering) settings() (*body, error) {
	b := &body{
		Stream: true, Speed: l.opts.Speed, Container: l.opts.Container, ContextManagement: l.opts.ContextManagement,
		ServiceTier: l.serviceTier(),
	}
	if l.opts.UserID != "" {
		b.Metadata = &metadata{UserID: l.opts.UserID}
	}
	var err error
	if b.MaxTokens, err = l.maxTokens(); err != nil {
		return nil, err
	}
	if b.Tools, err = l.tools(); err != nil {
		return nil, err
	}
	if l.choice, err = l.toolChoice(len(b.Tools)); err != nil {
		return nil, err
	}
	b.ToolChoice = l.choice
	var effort string
	if b.Thinking, effort, err = claude.Think(l.Request, l.opts.Thinking, l.choice.forced(), b.MaxTokens); err != nil {
		return nil, err
	}
	var format *outputFormat
	if len(l.OutputSchema) > 0 {
		format = &outputFormat{Type: "json_schema", Schema: protocol.Sanitised(l.OutputSchema, l.Model.Compat.Sanitizer)}
	}
	if effort != "" || format != nil {
		b.OutputConfig = &outputConfig{Effort: effort, Format: format}
	}
	return b, nil
}

func (l *lowering) maxTokens() (int64, error) {
	most := l.Model.MaxOutputTokens
	if n := l.Generation.MaxTokens; n != nil {
		if *n <= 0 {
			return 0, protocol.Invalid("specify at least one", "max tokens are %d", *n)
		}
		if most > 0 && *n > most {
			l.Warning("max_tokens exceeds the model's maximum output; using the maximum")
			return most, nil
		}
		return *n, nil
	}
	if most > 0 {
		return most, nil
	}
	return defaultMaxTokens, nil
}

// sampling must follow the decision about thinking, which excludes most settings.
func (l *lowering) sampling(b *body) {
	g := claude.Sampling(l.Request, b.Thinking)
	b.Temperature, b.TopP, b.TopK = g.Temperature, g.TopP, g.TopK
	for _, s := range g.Stop {
		if strings.TrimSpace(s) == "" {
			l.Warning("a blank stop sequence is omitted: the vendor does not accept it")
			continue
		}
		b.StopSequences = append(b.StopSequences, s)
	}
	if g.FrequencyPenalty != nil || g.PresencePenalty != nil {
		l.Warning("frequency and presence penalties are omitted: the format has none")
	}
	if g.Seed != nil {
		l.Warning("seed is omitted: the format has none")
	}
}

func (l *lowering) serviceTier() string {
	switch l.ServiceTier {
	case "", "auto", "standard_only":
		return l.ServiceTier
	}
	l.Warning(`service tier "` + l.ServiceTier + `" is left out: the vendor knows "auto" and "standard_only"`)
	return ""
}

// cacheControl marks the end of a part of the prompt to cache.
type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// marker is a part that can be marked.
type marker interface{ mark(*cacheControl) }

// cached is embedded in types that can be marked.
type cached struct {
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

func (c *cached) mark(m *cacheControl) { c.CacheControl = m }

func (l *lowering) mark(m marker) { m.mark(&cacheControl{Type: "ephemeral", TTL: l.opts.CacheTTL}) }

func (l *lowering) system(marks []int) []*textBlock {
	var out []*textBlock
	for i, s := range l.System {
		if strings.TrimSpace(s) == "" {
			continue
		}
		t := &textBlock{Type: "text", Text: s}
		if slices.Contains(marks, i) {
			l.mark(t)
		}
		out = append(out, t)
	}
	return out
}

// textOf joins the texts in parts.
func textOf(parts []llm.Part, separator string) string {
	var texts []string
	for _, p := range parts {
		if t, ok := p.(*llm.Text); ok && strings.TrimSpace(t.Text) != "" {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, separator)
}
