package llm

import "slices"

// ModelRow is what a provider says about one of its models.
type ModelRow struct {
	ID            string `json:"id"`
	DisplayName   string `json:"displayName,omitempty"`
	ContextWindow int64  `json:"contextWindow,omitempty"` // tokens; 0: unknown
	// MaxContextWindow is the most that a user may set as ContextWindow, in tokens. 0: unknown, and anything goes.
	MaxContextWindow int64 `json:"maxContextWindow,omitempty"`
	// ContextWindowSource says where ContextWindow comes from; empty: not said.
	ContextWindowSource WindowSource `json:"contextWindowSource,omitempty"`
	MaxOutputTokens     int64        `json:"maxOutputTokens,omitempty"`
	// Modalities are "text", "image", "audio", "pdf" and "video".
	InputModalities  []string `json:"inputModalities,omitempty"`
	OutputModalities []string `json:"outputModalities,omitempty"`
	ToolKinds        []string `json:"toolKinds,omitempty"` // "function", "freeform", "search"
	// ToolTraits are the kinds of tools that suit the model: "patches", "edits", "files", or a plugin's own. Empty: "patches".
	ToolTraits  []string     `json:"toolTraits,omitempty"`
	HostedTools []HostedTool `json:"hostedTools,omitempty"`
	// ReasoningEfforts are those it takes, weakest first; empty: no reasoning control.
	ReasoningEfforts       []string `json:"reasoningEfforts,omitempty"`
	DefaultReasoningEffort string   `json:"defaultReasoningEffort,omitempty"`
	Prices                 Prices   `json:"prices,omitzero"`
	Compatibility          []string `json:"compatibility,omitempty"` // names of deviations to respect
	ParallelToolCalls      bool     `json:"parallelToolCalls,omitempty"`
	Fallback               bool     `json:"fallback,omitempty"`        // a guess: the model is not in the catalogue
	TruncationMode         string   `json:"truncationMode,omitempty"`  // "tokens" or "bytes"; empty: tokens
	TruncationLimit        int64    `json:"truncationLimit,omitempty"` // of one tool output; 0: 10000
	// MetadataNamespace is the key of the metadata that the provider wants back; all else is stripped from a history.
	MetadataNamespace string `json:"metadataNamespace,omitempty"`
	// Notes are for people: what is odd about the row, a setting that does not hold for example. Each is told once.
	Notes []string `json:"notes,omitempty"`
}

// Traits are what a tool can ask of a model to be offered to it: ToolTraits, and "images" where the model takes them.
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

// WindowSource is where a context window comes from. Other values than these may come and mean nothing.
type WindowSource string

// The sources, the strongest first.
const (
	WindowConfig  WindowSource = "config"  // the user says so
	WindowService WindowSource = "service" // the service was asked
	WindowCatalog WindowSource = "catalog"
	WindowAssumed WindowSource = "assumed" // nobody says
)

// HostedTool is a tool that the vendor runs.
type HostedTool struct {
	Kind    string   `json:"kind"`              // for example "web_search"
	Effects []string `json:"effects,omitempty"` // labels
}

// Prices are in US dollars per million tokens. nil is unknown.
type Prices struct {
	Input      *float64    `json:"input,omitempty"`
	Output     *float64    `json:"output,omitempty"`
	CacheRead  *float64    `json:"cacheRead,omitempty"`  // nil: as input
	CacheWrite *float64    `json:"cacheWrite,omitempty"` // nil: as input
	Reasoning  *float64    `json:"reasoning,omitempty"`  // nil: as output
	Tiers      []PriceTier `json:"tiers,omitempty"`      // of large requests, by size
}

// PriceTier holds for the whole of a request whose input, cached tokens included, is larger than Above tokens.
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

// Cost is what a request cost in US dollars: what the vendor says, or else its tokens times their price. ok is false when
// either is unknown.
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
