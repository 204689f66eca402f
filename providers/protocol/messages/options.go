package messages

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
)

// Options are settings that only this format has: a request's provider options under "anthropic", overridden by those under the
// request's own namespace. An unknown key is an error.
type Options struct {
	// Betas are values for the header [BetaHeader], in addition to those that the body needs.
	Betas []string `json:"betas"`
	// Thinking overrides the reasoning effort. If only its display is set, it just sets how thinking is shown.
	Thinking *claude.Thinking `json:"thinking"`
	// UserID is an opaque ID of the end user for the vendor. By default, none is sent.
	UserID string `json:"user_id"`
	// CacheTTL is the lifetime of cached parts: "5m" or "1h". Empty: the vendor's default of 5 minutes.
	CacheTTL string `json:"cache_ttl"`
	// Speed "fast" selects the vendor's faster and more expensive mode.
	Speed string `json:"speed"`
	// Container (an ID or an object) and ContextManagement are added to the body unchanged.
	Container         json.RawMessage `json:"container"`
	ContextManagement json.RawMessage `json:"context_management"`
	// Settings of hosted tools, under the vendor's names: "max_uses", "allowed_domains", ... A "type" selects the version of the
	// tool.
	WebSearch     hostedSettings `json:"web_search"`
	WebFetch      hostedSettings `json:"web_fetch"`
	CodeExecution hostedSettings `json:"code_execution"`
}

func optionsOf(r *protocol.Request) (Options, error) {
	var o Options
	if err := protocol.ReadOptions(r, Namespace, &o); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *Options) check() error {
	if err := o.Thinking.Check(); err != nil {
		return err
	}
	switch o.CacheTTL {
	case "", "5m", "1h":
	default:
		return protocol.Invalid(`use "5m" or "1h"`, "provider options: the vendor knows no cache_ttl %q", o.CacheTTL)
	}
	// In fields that are sent unchanged, null means absent.
	for _, raw := range []*json.RawMessage{&o.Container, &o.ContextManagement} {
		if string(*raw) == "null" {
			*raw = nil
		}
	}
	return nil
}
