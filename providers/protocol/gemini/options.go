package gemini

// OptionsKey is the key of this format's options among a request's provider options. Those under the request's own
// namespace are laid over them.
const OptionsKey = "google"

// Options are the vendor's own settings of a request, under the vendor's own names.
type Options struct {
	CachedContent      string            `json:"cachedContent,omitempty"` // its system text and tools replace the request's
	SafetySettings     []SafetySetting   `json:"safetySettings,omitempty"`
	ServiceTier        string            `json:"serviceTier,omitempty"` // wins over the request's own
	Labels             map[string]string `json:"labels,omitempty"`
	ThinkingConfig     *ThinkingConfig   `json:"thinkingConfig,omitempty"` // wins, field by field, over what the effort says
	ResponseModalities []string          `json:"responseModalities,omitempty"`
	MediaResolution    string            `json:"mediaResolution,omitempty"`
}

// SafetySetting sets where a harm category is blocked.
type SafetySetting struct {
	Category  string `json:"category"`
	Threshold string `json:"threshold"`
}

// ThinkingConfig bounds thinking: by a level from generation 3 on, by tokens before. -1 tokens leave it to the model.
type ThinkingConfig struct {
	ThinkingBudget  *int64 `json:"thinkingBudget,omitempty"`
	ThinkingLevel   string `json:"thinkingLevel,omitempty"`
	IncludeThoughts *bool  `json:"includeThoughts,omitempty"`
}
