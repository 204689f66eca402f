package llm

// ModelRow is what a provider says about one of its models.
type ModelRow struct {
	ID              string `json:"id"`
	DisplayName     string `json:"displayName,omitempty"`
	ContextWindow   int64  `json:"contextWindow,omitempty"` // tokens; 0: unknown
	MaxOutputTokens int64  `json:"maxOutputTokens,omitempty"`
	// Modalities are "text", "image", "audio", "pdf" and "video".
	InputModalities  []string     `json:"inputModalities,omitempty"`
	OutputModalities []string     `json:"outputModalities,omitempty"`
	ToolKinds        []string     `json:"toolKinds,omitempty"` // "function", "freeform"
	HostedTools      []HostedTool `json:"hostedTools,omitempty"`
	// ReasoningEfforts are those it takes, weakest first; empty: no reasoning control.
	ReasoningEfforts       []string `json:"reasoningEfforts,omitempty"`
	DefaultReasoningEffort string   `json:"defaultReasoningEffort,omitempty"`
	Prices                 Prices   `json:"prices,omitzero"`
	Compatibility          []string `json:"compatibility,omitempty"` // names of deviations to respect
	ParallelToolCalls      bool     `json:"parallelToolCalls,omitempty"`
	Fallback               bool     `json:"fallback,omitempty"`        // a guess: the model is not in the catalogue
	TruncationMode         string   `json:"truncationMode,omitempty"`  // "tokens" or "bytes"; empty: tokens
	TruncationLimit        int64    `json:"truncationLimit,omitempty"` // of one tool output; 0: 10000
}

// HostedTool is a tool that the vendor runs.
type HostedTool struct {
	Kind    string   `json:"kind"`              // for example "web_search"
	Effects []string `json:"effects,omitempty"` // labels
}

// Prices are in US dollars per million tokens. nil is unknown.
type Prices struct {
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	CacheRead  *float64 `json:"cacheRead,omitempty"`
	CacheWrite *float64 `json:"cacheWrite,omitempty"`
}
