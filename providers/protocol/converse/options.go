package converse

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
)

// Options are settings that only this format has, under the service's own names: a request's provider options under "bedrock",
// overridden by those under the request's own namespace. An unknown key is an error.
type Options struct {
	// AdditionalModelRequestFields are model-specific fields. They override those that this package sets.
	AdditionalModelRequestFields      map[string]json.RawMessage `json:"additionalModelRequestFields"`
	AdditionalModelResponseFieldPaths []string                   `json:"additionalModelResponseFieldPaths"`
	GuardrailConfig                   json.RawMessage            `json:"guardrailConfig"`   // of a stream
	PerformanceConfig                 json.RawMessage            `json:"performanceConfig"` // {"latency":"optimized"}
	RequestMetadata                   map[string]string          `json:"requestMetadata"`   // for the account's own logs
	// CacheTTL is the lifetime of cached parts: "5m" or "1h". Empty: the service's default.
	CacheTTL string `json:"cacheTTL"`
	// Thinking overrides the effort for Anthropic's models.
	Thinking *claude.Thinking `json:"thinking"`
}

func optionsOf(r *protocol.Request) (o Options, err error) {
	if err := protocol.ReadOptions(r, Namespace, &o); err != nil {
		return o, err
	}
	switch o.CacheTTL {
	case "", "5m", "1h":
	default:
		return o, protocol.Invalid(`use "5m" or "1h"`, "provider options: the service knows no cacheTTL %q", o.CacheTTL)
	}
	return o, o.Thinking.Check()
}
