// Package protocol is what the wire formats of model vendors have in common. Each format is a package below this one.
//
// It owns: the shape of a format ([Protocol], [Decoder]), the bookkeeping that all of them need ([Lifecycle], [Calls],
// [Names]), what a format must know of the model it speaks with ([Model]), and the meaning of a vendor's errors
// ([Classify]). It must not know: how bytes travel, who pays for them, any vendor's address.
//
// Nothing here or below does I/O, reads a clock or draws random numbers: a decoder is a function of its frames, so that
// splitting the bytes of a stream anywhere gives the same events.
//
// Start with [Protocol].
package protocol

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Protocol is one wire format. Implementations are values without state and safe for concurrent use.
type Protocol interface {
	// ID is the format's name in configuration and messages: "openai-responses", "anthropic-messages", ...
	ID() string
	// Framing says how the stream's bytes become frames.
	Framing() Framing
	// Path is the request's path below the base URL, with its query if it needs one: "/responses".
	Path(r *Request) string
	// Body lowers a request into the JSON that is sent. An *[llm.Error] says what can't be sent.
	Body(r *Request) ([]byte, error)
	// Decode returns a decoder for the answer to r.
	Decode(r *Request) Decoder
}

// Framing is a way of cutting bytes into frames.
type Framing int

// The framings.
const (
	FramingUnknown     Framing = iota
	FramingSSE                 // server-sent events
	FramingNDJSON              // one JSON value a line
	FramingEventStream         // binary frames of AWS
)

// Frame is one piece of a stream, as the framing cut it.
type Frame struct {
	Event string // name of the event where the framing has names
	Data  []byte // valid until the next frame; a decoder copies what it keeps
	Done  bool   // the end marker "[DONE]"; Data is empty
	// Failed marks an error in place of an answer, where the framing itself has a place for one: Event is what kind of
	// error, Data an object with its message.
	Failed bool
}

// Decoder turns the frames of one answer into events. For one goroutine.
type Decoder interface {
	// Step appends the events that a frame leads to. An *[llm.Error] ends the answer; events appended before it count.
	Step(dst []llm.Event, f Frame) ([]llm.Event, error)
	// End appends what is left to say when the bytes have ended. An answer that was not complete is an *[llm.Error] with
	// the code [llm.ErrIncompleteStream].
	End(dst []llm.Event) ([]llm.Event, error)
	// Done reports that the answer is complete, so that nobody waits for the end of the bytes. Where figures may come behind
	// the reason of the end, a decoder also has Settled() bool: the reason has come, so that bytes that end badly lose nothing.
	Done() bool
}

// Request is a request with what the format must know of its model and its route.
type Request struct {
	*llm.Request
	Model Model
	// Namespace is the key of this vendor's metadata: what comes back from it is kept under this key, and only what is
	// under this key is sent to it.
	Namespace string
	// NewID makes the id of a call that the vendor gave none. Nil counts up. See [Request.IDs].
	NewID func() string
	// Warn hears of what was left out of the body because the model does not take it. May be nil.
	Warn func(text string)
}

// IDs returns what makes ids for one answer: NewID, or a count that goes on behind the calls of the history, "call_1",
// "call_2", ... No call of a conversation gets the id of another one, and the same conversation gets the same ids.
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

// Warning tells what was left out of the body.
func (r *Request) Warning(text string) {
	if r.Warn != nil {
		r.Warn(text)
	}
}

// Model is what a format must know of the model. The zero value is a model of which nothing is known: it takes text and
// functions.
type Model struct {
	ID     string // as the vendor calls it
	Family string // models of one family understand each other's reasoning; empty: the ID stands for it
	// MaxOutputTokens is the most that the model writes; 0: unknown.
	MaxOutputTokens int64
	// Input lists the modalities beside text that it takes: "image", "pdf", "audio", "video".
	Input []string
	// Reasons tells that the model thinks before it answers. Efforts are those it takes, weakest first.
	Reasons bool
	Efforts []string
	// AlwaysThinks tells that it can't be told not to.
	AlwaysThinks bool
	// NoSampling tells that it refuses to be told how to draw its words: temperature and its like. See [Normalised].
	NoSampling bool
	// Budget bounds the tokens for thinking where the vendor counts them; 0: unknown.
	BudgetMin, BudgetMax int64
	Freeform             bool // takes grammar tools
	Search               bool // takes tools that look for others, and what they found, in a form of their own
	Verbosity            bool // takes a verbosity
	Compat               Compat
}

// Compat holds a vendor's deviations from its format. Zero values are the format's own rules.
type Compat struct {
	// Sanitizer names the dialect of JSON schema: "gemini", "moonshot"; empty or "none": schemas go out as they are.
	Sanitizer string `json:"sanitizer,omitempty"`
	// ReasoningField is the field of a chat message that carries reasoning, in and out.
	ReasoningField string `json:"reasoning_field,omitempty"`
	// RequireReasoning puts the reasoning field on every assistant message, empty if need be.
	RequireReasoning bool `json:"require_reasoning,omitempty"`
	// MaxTokensField is "max_tokens" or "max_completion_tokens".
	MaxTokensField string `json:"max_tokens_field,omitempty"`
	// OptionalFinishReason accepts an answer that ends without a finish reason.
	OptionalFinishReason bool `json:"optional_finish_reason,omitempty"`
	// AssistantAfterTool puts an assistant message between tool results and a user message.
	AssistantAfterTool bool   `json:"assistant_after_tool,omitempty"`
	NoStore            bool   `json:"no_store,omitempty"`          // the field "store" is unknown there
	NoStrict           bool   `json:"no_strict,omitempty"`         // "strict" of functions is unknown there
	NoStreamUsage      bool   `json:"no_stream_usage,omitempty"`   // "stream_options" is unknown there
	PromptCacheKey     bool   `json:"prompt_cache_key,omitempty"`  // chat: takes prompt_cache_key
	ToolStream         bool   `json:"tool_stream,omitempty"`       // chat: wants tool_stream:true with tools
	InlineCache        bool   `json:"inline_cache,omitempty"`      // takes cache_control marks on parts
	NoParallelTools    bool   `json:"no_parallel_tools,omitempty"` // "parallel_tool_calls" is unknown there
	NoEmptyTools       bool   `json:"no_empty_tools,omitempty"`    // chat: an empty list of tools is refused there
	NoImages           bool   `json:"no_images,omitempty"`         // images become a note that one was left out
	NativeNamespaces   bool   `json:"native_namespaces,omitempty"` // responses: tools may be grouped
	SealedOutput       bool   `json:"sealed_output,omitempty"`     // responses: results of tools may be encrypted for the vendor's models
	SystemUpdates      bool   `json:"system_updates,omitempty"`    // messages: takes system messages in mid-history
	ToolCallIDs        string `json:"tool_call_ids,omitempty"`     // rewriting of call ids: "mistral", "claude", "openai"
	PlainResults       bool   `json:"plain_results,omitempty"`     // converse: results are text alone, and not said to be errors
	// EffortField is how chat says the effort: "reasoning_effort" (default), "reasoning", "thinking", "none"; and converse:
	// "thinking" (Anthropic's), "reasoning_config" (Amazon's), "reasoning_effort", else not at all.
	EffortField string            `json:"effort_field,omitempty"`
	EffortMap   map[string]string `json:"effort_map,omitempty"`    // canonical effort → the vendor's word
	NoToolCache bool              `json:"no_tool_cache,omitempty"` // with InlineCache: tools take no marks
	RandomSeed  bool              `json:"random_seed,omitempty"`   // chat: the seed is called random_seed
	// CacheIsolationKey, with PromptCacheKey: the key is called prompt_cache_isolation_key.
	CacheIsolationKey bool `json:"cache_isolation_key,omitempty"`
	// Body is merged into every body, under the request's own options: what a vendor wants said each time.
	Body json.RawMessage `json:"body,omitempty"`
	// ThinkTags splits thinking out of the text, for models that write <think>…</think>.
	ThinkTags *ThinkTags `json:"think_tags,omitempty"`
}

// ThinkTags are the marks around thinking inside a text.
type ThinkTags struct {
	Open        string `json:"open"`
	Close       string `json:"close"`
	StartInside bool   `json:"start_inside,omitempty"` // the answer begins inside
}

// Takes reports whether the model takes a modality.
func (m *Model) Takes(modality string) bool {
	return modality == "text" || slices.Contains(m.Input, modality)
}
