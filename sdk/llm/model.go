package llm

import "slices"

// ModelRow describes one model of a provider.
type ModelRow struct {
	ID            string `json:"id"`
	DisplayName   string `json:"displayName,omitempty"`
	ContextWindow int64  `json:"contextWindow,omitempty"` // tokens; 0: unknown
	// MaxContextWindow is the maximum that a user may set as ContextWindow, in tokens. 0: unknown; any value is accepted.
	MaxContextWindow int64 `json:"maxContextWindow,omitempty"`
	// ContextWindowSource is the source of ContextWindow; empty: not specified.
	ContextWindowSource WindowSource `json:"contextWindowSource,omitempty"`
	MaxOutputTokens     int64        `json:"maxOutputTokens,omitempty"`
	// Modalities are "text", "image", "audio", "pdf" and "video".
	InputModalities  []string `json:"inputModalities,omitempty"`
	OutputModalities []string `json:"outputModalities,omitempty"`
	ToolKinds        []string `json:"toolKinds,omitempty"` // "function", "freeform", "search", "namespace"
	// ToolTraits are the kinds of tools that suit the model: "patches", "edits", "files", or kinds defined by a plugin.
	// Empty: "patches".
	ToolTraits  []string     `json:"toolTraits,omitempty"`
	HostedTools []HostedTool `json:"hostedTools,omitempty"`
	// ReasoningEfforts are the supported efforts, weakest first; empty: no reasoning control.
	ReasoningEfforts       []string `json:"reasoningEfforts,omitempty"`
	DefaultReasoningEffort string   `json:"defaultReasoningEffort,omitempty"`
	Prices                 Prices   `json:"prices,omitzero"`
	Compatibility          []string `json:"compatibility,omitempty"` // names of deviations to respect
	ParallelToolCalls      bool     `json:"parallelToolCalls,omitempty"`
	Fallback               bool     `json:"fallback,omitempty"`        // a guess: the model is not in the catalogue
	TruncationMode         string   `json:"truncationMode,omitempty"`  // "tokens" or "bytes"; empty: tokens
	TruncationLimit        int64    `json:"truncationLimit,omitempty"` // of one tool output; 0: 10000
	// MetadataNamespace is the namespace of the metadata that the provider expects back; other metadata is removed from a
	// history.
	MetadataNamespace string `json:"metadataNamespace,omitempty"`
	// Notes are messages for people about unusual properties of the row, such as a setting that has no effect. Each is
	// shown once.
	Notes []string `json:"notes,omitempty"`
}

// Traits returns the traits that tools can require of a model: ToolTraits, and "images" if the model accepts them.
func (r ModelRow) Traits() []string {
	traits := slices.Clone(r.ToolTraits)
	if len(traits) == 0 {
		traits = []string{"patches"}
	}
	if slices.Contains(r.InputModalities, "image") && !slices.Contains(traits, "images") {
		traits = append(traits, "images")
	}
	return traits
}

// WindowSource is the source of a context window. Unknown values are possible and have no meaning.
type WindowSource string

// The sources, in order of precedence.
const (
	WindowConfig  WindowSource = "config"  // set by the user
	WindowService WindowSource = "service" // reported by the service
	WindowCatalog WindowSource = "catalog"
	WindowAssumed WindowSource = "assumed" // a default, because the size is unknown
)

// HostedTool is a tool that the vendor executes.
type HostedTool struct {
	Kind    string   `json:"kind"`              // for example "web_search"
	Effects []string `json:"effects,omitempty"` // labels
}

// Prices are in US dollars per million tokens. nil means unknown.
type Prices struct {
	Input      *float64    `json:"input,omitempty"`
	Output     *float64    `json:"output,omitempty"`
	CacheRead  *float64    `json:"cacheRead,omitempty"`  // nil: as input
	CacheWrite *float64    `json:"cacheWrite,omitempty"` // nil: as input
	Reasoning  *float64    `json:"reasoning,omitempty"`  // nil: as output
	Tiers      []PriceTier `json:"tiers,omitempty"`      // of large requests, by size
}

// PriceTier applies to an entire request whose input, including cached tokens, exceeds Above tokens.
type PriceTier struct {
	Above      int64    `json:"above"`
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	CacheRead  *float64 `json:"cacheRead,omitempty"`
	CacheWrite *float64 `json:"cacheWrite,omitempty"`
	Reasoning  *float64 `json:"reasoning,omitempty"`
}

// IsZero reports whether nothing is known.
func (p Prices) IsZero() bool {
	return p.Input == nil && p.Output == nil && p.CacheRead == nil && p.CacheWrite == nil && p.Reasoning == nil && len(p.Tiers) == 0
}

// Cost returns the cost of a request in US dollars: the amount reported by the vendor, or else its tokens times their
// prices. ok is false if either is unknown.
func (p Prices) Cost(u Usage) (usd float64, ok bool) {
	if u.CostUSD != nil {
		return *u.CostUSD, true
	}
	if u.Input == nil || u.Output == nil {
		return 0, false
	}
	size := int64(-1)
	for _, t := range p.Tiers {
		if *u.Input > t.Above && t.Above > size {
			size = t.Above
			p = Prices{Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning, Tiers: p.Tiers}
		}
	}
	if p.Input == nil || p.Output == nil {
		return 0, false
	}
	part := func(tokens *int64, most int64) int64 {
		if tokens == nil {
			return 0
		}
		return max(0, min(*tokens, most))
	}
	price := func(own, otherwise *float64) float64 {
		if own != nil {
			return *own
		}
		return *otherwise
	}
	read := part(u.CacheRead, *u.Input)
	write := part(u.CacheWrite, *u.Input-read)
	reasoning := part(u.Reasoning, *u.Output)
	sum := float64(*u.Input-read-write)**p.Input + float64(read)*price(p.CacheRead, p.Input) + float64(write)*price(p.CacheWrite, p.Input) +
		float64(*u.Output-reasoning)**p.Output + float64(reasoning)*price(p.Reasoning, p.Output)
	return sum / 1e6, true
}
