package llm

// Event is one event of an answer. Order: [Attempt]*, [StepStart], blocks, [StepFinish], [Finish]; or [*Error] as the last
// one. Each block has one start and one end, with deltas in between.
type Event interface {
	isEvent()
}

// BlockKind is the kind of content of a block.
type BlockKind int

// The kinds of blocks.
const (
	BlockUnknown BlockKind = iota
	BlockText
	BlockReasoning
	BlockToolInput
)

// Attempt says that the provider retries on its own, before any part of the answer has arrived.
type Attempt struct {
	N       int // the attempt that follows, from 2
	DelayMS int64
	Reason  string
}

// Alive says that the vendor is still sending data that contains no event, so the receiver should keep waiting. It may
// occur at any time before the last event and has no other meaning.
type Alive struct{}

// StepStart is the first event of an answer.
type StepStart struct {
	ServedModel string // the model that answers, if reported by the vendor
	ResponseID  string
}

// BlockStart opens a block. Name, Namespace, Freeform and ProviderExecuted are set for tool input only.
type BlockStart struct {
	Kind             BlockKind
	ID               string
	Name             string
	Namespace        string
	Freeform         bool
	ProviderExecuted bool
	Metadata         Metadata
}

// BlockDelta is a piece of a block.
type BlockDelta struct {
	Kind BlockKind
	ID   string
	Text string
	Raw  bool // for reasoning: Text is the reasoning itself, not a summary of it; the same for all of a block
}

// BlockEnd closes a block. Its metadata overrides that of the start.
type BlockEnd struct {
	Kind     BlockKind
	ID       string
	Metadata Metadata
	Remark   bool // for text: an intermediate remark, not part of the answer
}

// ToolInputError discards a call whose arguments are not valid JSON.
type ToolInputError struct {
	ID, Name, Namespace string
	Raw                 string
	Message             string
	Metadata            Metadata // of the call
}

// ToolCallDone publishes a complete call.
type ToolCallDone struct{ Call ToolCall }

// ToolResultDone is the result of a call that the vendor executed.
type ToolResultDone struct{ Result ToolResult }

// StepFinish is the second-to-last event. Again is set if the model wants to continue although it called no tool.
type StepFinish struct {
	Reason    FinishReason
	RawReason string
	Usage     Usage
	Again     bool
}

// Finish is the last event.
type Finish struct {
	Reason   FinishReason
	Usage    Usage
	Metadata Metadata
}

func (Attempt) isEvent()        {}
func (Alive) isEvent()          {}
func (StepStart) isEvent()      {}
func (BlockStart) isEvent()     {}
func (BlockDelta) isEvent()     {}
func (BlockEnd) isEvent()       {}
func (ToolInputError) isEvent() {}
func (ToolCallDone) isEvent()   {}
func (ToolResultDone) isEvent() {}
func (StepFinish) isEvent()     {}
func (Finish) isEvent()         {}
func (*Error) isEvent()         {}

// FinishReason is the reason that an answer ended.
type FinishReason int

// The reasons.
const (
	FinishUnknown FinishReason = iota
	FinishStop
	FinishLength
	FinishToolCalls
	FinishContentFilter
	FinishError
)

var finishNames = [...]string{"unknown", "stop", "length", "tool-calls", "content-filter", "error"}

// String returns the name used in JSON.
func (r FinishReason) String() string { return nameOf(finishNames[:], int(r)) }

// MarshalText implements [encoding.TextMarshaler].
func (r FinishReason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *FinishReason) UnmarshalText(b []byte) error {
	i, err := indexOf(finishNames[:], string(b), "finish reason")
	*r = FinishReason(i)
	return err
}

// Usage is the usage in tokens. nil means unknown, not 0.
type Usage struct {
	Input      *int64 `json:"inputTokens,omitempty"`  // inclusive of cached tokens
	Output     *int64 `json:"outputTokens,omitempty"` // inclusive of reasoning tokens
	Total      *int64 `json:"totalTokens,omitempty"`
	CacheRead  *int64 `json:"cacheReadTokens,omitempty"`
	CacheWrite *int64 `json:"cacheWriteTokens,omitempty"`
	Reasoning  *int64 `json:"reasoningTokens,omitempty"`
	Raw        []byte `json:"raw,omitempty"` // the vendor's own object
	// CostUSD is the amount that the vendor charged, in US dollars.
	CostUSD *float64 `json:"costUsd,omitempty"`
}
