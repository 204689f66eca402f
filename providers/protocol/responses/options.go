package responses

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// optionsNamespace is where options for this format stand, whoever the vendor is. The vendor's own namespace overrides
// them key by key.
const optionsNamespace = "openai"

// Options is what a request can say to this format beyond the canonical fields. The names are those of the wire where
// there is one; absent fields are the vendor's defaults unless said otherwise. Values are not checked here: vendors
// disagree on them and say clearly what they don't take.
type Options struct {
	// TextVerbosity is "low", "medium" or "high". Left out with a warning where the model has no such setting.
	TextVerbosity string `json:"text_verbosity"`
	// ReasoningSummary is "auto" (default for models that reason), "concise", "detailed", or "none" to ask for none.
	ReasoningSummary string `json:"reasoning_summary"`
	// Include asks for more in the answer. "reasoning.encrypted_content" is asked for without being named here.
	Include []string `json:"include"`
	// Store lets the vendor keep the answer. Default false: the history travels with each request.
	Store *bool `json:"store"`
	// StrictOutput makes the vendor hold the answer to the output schema. Default true.
	StrictOutput *bool `json:"strict_output"`
	// HostedTools are the settings of tools that the vendor runs, by kind. They apply only when the request offers that
	// tool. Those of "web_search" are a [WebSearch], others go out as they are.
	HostedTools map[string]json.RawMessage `json:"hosted_tools"`

	Truncation           string              `json:"truncation"`   // "auto", "disabled"
	ServiceTier          string              `json:"service_tier"` // wins over the request's
	Metadata             map[string]string   `json:"metadata"`
	MaxToolCalls         *int64              `json:"max_tool_calls"` // of hosted tools
	SafetyIdentifier     string              `json:"safety_identifier"`
	User                 string              `json:"user"`
	PromptCacheRetention string              `json:"prompt_cache_retention"` // "in_memory", "24h"
	PromptCacheOptions   *PromptCacheOptions `json:"prompt_cache_options"`
	ContextManagement    []ContextManagement `json:"context_management"`
	TopLogprobs          *int64              `json:"top_logprobs"` // 0 to 20
	PreviousResponseID   string              `json:"previous_response_id"`
	Conversation         string              `json:"conversation"`
	Background           *bool               `json:"background"`
	StreamOptions        *StreamOptions      `json:"stream_options"`
}

// PromptCacheOptions says how the vendor's prompt cache is used.
type PromptCacheOptions struct {
	Mode string          `json:"mode,omitempty"` // "implicit", "explicit"
	TTL  json.RawMessage `json:"ttl,omitempty"`
}

// ContextManagement lets the vendor shorten the history by itself.
type ContextManagement struct {
	Type             string `json:"type"` // "compaction"
	CompactThreshold *int64 `json:"compact_threshold,omitempty"`
}

// StreamOptions are settings of the stream.
type StreamOptions struct {
	IncludeObfuscation *bool `json:"include_obfuscation,omitempty"` // padding against guessing from packet sizes
}

// WebSearch are the settings of the hosted web search.
type WebSearch struct {
	ExternalWebAccess  *bool         `json:"external_web_access,omitempty"` // false: only what the vendor has cached
	IndexedWebAccess   *bool         `json:"indexed_web_access,omitempty"`
	Filters            *WebFilters   `json:"filters,omitempty"`
	UserLocation       *UserLocation `json:"user_location,omitempty"`
	SearchContextSize  string        `json:"search_context_size,omitempty"`  // "low", "medium", "high"
	SearchContentTypes []string      `json:"search_content_types,omitempty"` // "text", "image"
}

// WebFilters bounds where a search looks.
type WebFilters struct {
	AllowedDomains []string `json:"allowed_domains,omitempty"`
}

// UserLocation is roughly where the user is. Type is "approximate" when absent.
type UserLocation struct {
	Type     string `json:"type,omitempty"`
	Country  string `json:"country,omitempty"`
	Region   string `json:"region,omitempty"`
	City     string `json:"city,omitempty"`
	Timezone string `json:"timezone,omitempty"`
}

func optionsOf(r *protocol.Request) (*Options, error) {
	opts := &Options{}
	return opts, protocol.ReadOptions(r, optionsNamespace, opts)
}
