package responses

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// optionsNamespace is the key of options for this format with any vendor. Those under the vendor's own namespace override them
// individually.
const optionsNamespace = "openai"

// Options are settings of this format beyond the canonical fields. They have the names of the format where possible. Absent fields
// have the vendor's default unless stated otherwise. Values are not validated: vendors support different ones, and their errors
// are clear.
type Options struct {
	// TextVerbosity is "low", "medium" or "high". If the model has no such setting, it is omitted with a warning.
	TextVerbosity string `json:"text_verbosity"`
	// ReasoningSummary is "auto" (the default for models that reason), "concise", "detailed", or "none".
	ReasoningSummary string `json:"reasoning_summary"`
	// Include requests additional output. "reasoning.encrypted_content" is always requested.
	Include []string `json:"include"`
	// Store lets the vendor store the response. Default: false; each request contains the history.
	Store *bool `json:"store"`
	// StrictOutput makes the vendor enforce the output schema. Default: true.
	StrictOutput *bool `json:"strict_output"`
	// HostedTools are the settings of tools that the vendor runs, by kind. They apply only if the request offers the tool. Those
	// of "web_search" are a [WebSearch]; others are sent unchanged.
	HostedTools map[string]json.RawMessage `json:"hosted_tools"`

	Truncation           string              `json:"truncation"`   // "auto", "disabled"
	ServiceTier          string              `json:"service_tier"` // overrides the request's
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

// PromptCacheOptions configure the vendor's prompt cache.
type PromptCacheOptions struct {
	Mode string          `json:"mode,omitempty"` // "implicit", "explicit"
	TTL  json.RawMessage `json:"ttl,omitempty"`
}

// ContextManagement lets the vendor shorten the history.
type ContextManagement struct {
	Type             string `json:"type"` // "compaction"
	CompactThreshold *int64 `json:"compact_threshold,omitempty"`
}

// StreamOptions are settings of the stream.
type StreamOptions struct {
	IncludeObfuscation *bool `json:"include_obfuscation,omitempty"` // padding that prevents inference from packet sizes
}

// WebSearch are the settings of the hosted web search.
type WebSearch struct {
	ExternalWebAccess  *bool         `json:"external_web_access,omitempty"` // false: only cached pages
	IndexedWebAccess   *bool         `json:"indexed_web_access,omitempty"`
	Filters            *WebFilters   `json:"filters,omitempty"`
	UserLocation       *UserLocation `json:"user_location,omitempty"`
	SearchContextSize  string        `json:"search_context_size,omitempty"`  // "low", "medium", "high"
	SearchContentTypes []string      `json:"search_content_types,omitempty"` // "text", "image"
}

// WebFilters limit where a search looks.
type WebFilters struct {
	AllowedDomains []string `json:"allowed_domains,omitempty"`
}

// UserLocation is the user's approximate location. The default type is "approximate".
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
