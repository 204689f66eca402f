package gemini

// OptionsKey is the key of this format's options among a request's provider options. Those under the request's own namespace
// override them.
const OptionsKey = "google"

// Options are the vendor's own settings of a request, under the vendor's names.
type Options struct {
	CachedContent      string            `json:"cachedContent,omitempty"` // its system text and tools replace the request's
	SafetySettings     []SafetySetting   `json:"safetySettings,omitempty"`
	ServiceTier        string            `json:"serviceTier,omitempty"` // overrides the request's own
	Labels             map[string]string `json:"labels,omitempty"`
	ThinkingConfig     *ThinkingConfig   `json:"thinkingConfig,omitempty"` // overrides, field by field, what follows from the effort
	ResponseModalities []string          `json:"responseModalities,omitempty"`
	MediaResolution    string            `json:"mediaResolution,omitempty"`
}

// SafetySetting sets the blocking threshold of a harm category.
type SafetySetting struct {
	Category  string `json:"category"`
	Threshold string `json:"threshold"`
}

// ThinkingConfig limits thinking: by a level since generation 3, by tokens in earlier ones. -1 tokens: the model decides.
type ThinkingConfig struct {
	ThinkingBudget  *int64 `json:"thinkingBudget,omitempty"`
	ThinkingLevel   string `json:"thinkingLevel,omitempty"`
	IncludeThoughts *bool  `json:"includeThoughts,omitempty"`
}
