// Package protocol contains what the wire formats of model vendors share. Each format is a package below this one.
//
// It owns the interface of a format ([Protocol], [Decoder]), the bookkeeping that all of them need ([Lifecycle], [Calls],
// [Names]), what a format must know about a model ([Model]), and the meaning of a vendor's errors ([Classify]). It does not know
// how requests are sent, who pays for them, or any vendor's address.
//
// Nothing in these packages performs I/O, reads a clock or generates random numbers: a decoder is a function of its frames, so
// that the events do not depend on how the bytes of a stream are split.
//
// Start with [Protocol].
package protocol

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Protocol is a wire format. Implementations are stateless values that are safe for concurrent use.
type Protocol interface {
	// ID returns the format's name in configuration and messages: "openai-responses", "anthropic-messages", ...
	ID() string
	// Framing returns how the stream's bytes are split into frames.
	Framing() Framing
	// Path returns the request's path below the base URL, with its query if it needs one: "/responses".
	Path(r *Request) string
	// Body converts a request to JSON. It returns an *[llm.Error] if the request cannot be represented.
	Body(r *Request) ([]byte, error)
	// Decode returns a decoder for the response to r.
	Decode(r *Request) Decoder
}

// Framing is a way of splitting bytes into frames.
type Framing int

// Framings.
const (
	FramingUnknown     Framing = iota
	FramingSSE                 // server-sent events
	FramingNDJSON              // one JSON value per line
	FramingEventStream         // AWS's binary frames
)

// Frame is one frame of a stream.
type Frame struct {
	Event string // name of the event, if the framing has names
	Data  []byte // valid until the next frame; a decoder must copy what it keeps
	Done  bool   // the end marker "[DONE]"; Data is empty
	// Failed is set for an error frame, in framings that have them: Event is the type of the error, and Data an object with its
	// message.
	Failed bool
}

// Decoder converts the frames of a response to events. It is not safe for concurrent use.
type Decoder interface {
	// Step appends the events of a frame. An *[llm.Error] ends the response; events appended before it are valid.
	Step(dst []llm.Event, f Frame) ([]llm.Event, error)
	// End appends the final events after the last byte. An incomplete response is an *[llm.Error] with the code
	// [llm.ErrIncompleteStream].
	End(dst []llm.Event) ([]llm.Event, error)
	// Done reports whether the response is complete, so that the rest of the stream need not be read. A decoder for which usage
	// may follow the finish reason also has Settled() bool: the finish reason has arrived, so that an error in the rest of the
	// stream loses nothing.
	Done() bool
}

// Request is a request with what the format must know about its model and its route.
type Request struct {
	*llm.Request
	Model Model
	// Namespace is the key of this vendor's metadata: its data are stored under this key, and only data under this key are sent to
	// it.
	Namespace string
	// NewID generates the ID of a call for which the vendor gave none. Nil: count. See [Request.IDs].
	NewID func() string
	// Warn is called with what was omitted from the body because the model does not support it. May be nil.
	Warn func(text string)
}

// IDs returns a generator of IDs for a response: NewID, or a counter that continues after the calls of the history, "call_1",
// "call_2", ... IDs are unique in a conversation, and the same conversation gets the same IDs.
func (r *Request) IDs() func() string {
	if r.NewID != nil {
		return r.NewID
	}
	used := map[string]bool{}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if c, ok := p.(*llm.ToolCall); ok {
				used[c.ID] = true
			}
		}
	}
	n := len(used)
	return func() string {
		for {
			n++
			if id := "call_" + strconv.Itoa(n); !used[id] {
				return id
			}
		}
	}
}

// Warning reports what was omitted from the body.
func (r *Request) Warning(text string) {
	if r.Warn != nil {
		r.Warn(text)
	}
}

// Model describes a model for a format. The zero value is an unknown model: it supports text and functions.
type Model struct {
	ID     string // the vendor's name for it
	Family string // models of a family can read each other's reasoning; empty: the ID is used instead
	// MaxOutputTokens is the maximum output; 0: unknown.
	MaxOutputTokens int64
	// Input lists the supported modalities other than text: "image", "pdf", "audio", "video".
	Input []string
	// Reasons reports whether the model reasons. Efforts are the supported efforts, weakest first.
	Reasons bool
	Efforts []string
	// AlwaysThinks reports whether reasoning cannot be disabled.
	AlwaysThinks bool
	// NoSampling reports whether the model rejects sampling settings such as the temperature. See [Normalised].
	NoSampling bool
	// Limits of the token budget for reasoning, if the vendor has one; 0: unknown.
	BudgetMin, BudgetMax int64
	Freeform             bool // supports tools with a grammar
	Search               bool // supports tool search and its results natively
	Verbosity            bool // supports a verbosity
	Compat               Compat
}

// Compat contains a vendor's deviations from its format. Zero values follow the format.
type Compat struct {
	// Sanitizer is the dialect of JSON schema: "gemini", "moonshot"; empty or "none": schemas are sent unchanged.
	Sanitizer string `json:"sanitizer,omitempty"`
	// ReasoningField is the field of a chat message with the reasoning, in requests and responses.
	ReasoningField string `json:"reasoning_field,omitempty"`
	// RequireReasoning adds the reasoning field to every assistant message, even if it is empty.
	RequireReasoning bool `json:"require_reasoning,omitempty"`
	// MaxTokensField is "max_tokens" or "max_completion_tokens".
	MaxTokensField string `json:"max_tokens_field,omitempty"`
	// OptionalFinishReason accepts a response without a finish reason.
	OptionalFinishReason bool `json:"optional_finish_reason,omitempty"`
	// AssistantAfterTool inserts an assistant message between tool results and a user message.
	AssistantAfterTool bool   `json:"assistant_after_tool,omitempty"`
	NoStore            bool   `json:"no_store,omitempty"`          // responses: the field "store" is unknown
	Store              bool   `json:"store,omitempty"`             // chat: the field "store" is known, and refers to OpenAI's store
	NoSummary          bool   `json:"no_summary,omitempty"`        // responses: summaries of reasoning are requested only if the options say so
	NoStrict           bool   `json:"no_strict,omitempty"`         // "strict" is unknown for functions
	NoStreamUsage      bool   `json:"no_stream_usage,omitempty"`   // "stream_options" is unknown
	PromptCacheKey     bool   `json:"prompt_cache_key,omitempty"`  // chat: supports prompt_cache_key
	ToolStream         bool   `json:"tool_stream,omitempty"`       // chat: needs tool_stream:true with tools
	InlineCache        bool   `json:"inline_cache,omitempty"`      // supports cache_control marks on parts
	NoParallelTools    bool   `json:"no_parallel_tools,omitempty"` // "parallel_tool_calls" is unknown
	NoEmptyTools       bool   `json:"no_empty_tools,omitempty"`    // chat: an empty list of tools is rejected
	NoImages           bool   `json:"no_images,omitempty"`         // images are replaced by a note
	NativeNamespaces   bool   `json:"native_namespaces,omitempty"` // responses: supports groups of tools
	SealedOutput       bool   `json:"sealed_output,omitempty"`     // responses: tool results may be encrypted for the vendor's models
	SystemUpdates      bool   `json:"system_updates,omitempty"`    // messages: supports system messages within the history
	ToolCallIDs        string `json:"tool_call_ids,omitempty"`     // rewriting of call IDs: "mistral", "claude", "openai"
	PlainResults       bool   `json:"plain_results,omitempty"`     // converse: results only contain text, and no error status
	// EffortField selects the form of the effort. For chat: "reasoning_effort" (default), "reasoning", "thinking", "none". For
	// converse: "thinking" (Anthropic), "reasoning_config" (Amazon), "reasoning_effort", otherwise none.
	EffortField string            `json:"effort_field,omitempty"`
	EffortMap   map[string]string `json:"effort_map,omitempty"`    // our name of an effort → the vendor's
	NoToolCache bool              `json:"no_tool_cache,omitempty"` // with InlineCache: tools cannot be marked
	RandomSeed  bool              `json:"random_seed,omitempty"`   // chat: the seed's name is random_seed
	// CacheIsolationKey, with PromptCacheKey: the name of the key is prompt_cache_isolation_key.
	CacheIsolationKey bool `json:"cache_isolation_key,omitempty"`
	// Body is merged into every body, and overridden by the request's own options.
	Body json.RawMessage `json:"body,omitempty"`
	// ThinkTags separates thinking from the text, for models that write <think>…</think>.
	ThinkTags *ThinkTags `json:"think_tags,omitempty"`
}

// ThinkTags are the tags around thinking within a text.
type ThinkTags struct {
	Open        string `json:"open"`
	Close       string `json:"close"`
	StartInside bool   `json:"start_inside,omitempty"` // the response begins with thinking, without an opening tag
}

// Takes reports whether the model supports a modality.
func (m *Model) Takes(modality string) bool {
	return modality == "text" || slices.Contains(m.Input, modality)
}
