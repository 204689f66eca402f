package responses

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

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
	for _, ns := range slices.Compact([]string{optionsNamespace, r.Namespace}) {
		if raw := r.ProviderOptions[ns]; len(raw) > 0 && ns != "" {
			if err := decodeStrictly(raw, opts, "provider options "+quote(ns)); err != nil {
				return nil, err
			}
		}
	}
	return opts, nil
}

// decodeStrictly decodes an object into the struct that v points to. Keys that the struct lacks are an error: an option
// that is misspelt would otherwise do nothing, unseen.
func decodeStrictly(raw json.RawMessage, v any, what string) error {
	const next = "correct the options in the provider's or the request's configuration"
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return refused(next, "%s: a JSON object is needed", what)
	}
	known := jsonKeys(v)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			return refused(next, "%s: unknown key %q; the nearest known one is %q", what, key, nearest(key, known))
		}
	}
	err := json.Unmarshal(raw, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return refused(next, "%s: %s: a %s can't stand where a value of type %s is needed", what, wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return refused(next, "%s: %v", what, err)
	}
	return nil
}

func jsonKeys(v any) []string {
	t := reflect.TypeOf(v).Elem()
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return keys
}

func quote(s string) string { return `"` + s + `"` }

// nearest returns the name with the fewest edits to what was written.
func nearest(written string, names []string) string {
	best, fewest := "", -1
	for _, n := range names {
		if d := edits(written, n); fewest < 0 || d < fewest {
			best, fewest = n, d
		}
	}
	return best
}

func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, substituted)
		}
	}
	return row[len(b)]
}
