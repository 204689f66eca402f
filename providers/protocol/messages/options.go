package messages

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
)

// Options are what only this format has: a request's provider options under "anthropic", and over them those under the
// request's own namespace. An unknown key is an error.
type Options struct {
	// Betas are tokens for the header [BetaHeader], beside those that the body needs anyway.
	Betas []string `json:"betas"`
	// Thinking replaces what the reasoning effort leads to. With a display alone it only says how thinking is shown.
	Thinking *claude.Thinking `json:"thinking"`
	// UserID tells the vendor which user of ours asks, as an opaque id. Nothing of the kind is sent otherwise.
	UserID string `json:"user_id"`
	// CacheTTL is how long marked parts stay in the prompt cache: "5m" or "1h". Empty: the vendor's own, 5 minutes.
	CacheTTL string `json:"cache_ttl"`
	// Speed "fast" is the vendor's faster and dearer way of running a model.
	Speed string `json:"speed"`
	// Container (an id or an object) and ContextManagement go into the body as they are.
	Container         json.RawMessage `json:"container"`
	ContextManagement json.RawMessage `json:"context_management"`
	// Settings of hosted tools, in the vendor's own words: "max_uses", "allowed_domains", ... A "type" among them is the
	// version of the tool.
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
	// What goes out as it came: null is as good as nothing.
	for _, raw := range []*json.RawMessage{&o.Container, &o.ContextManagement} {
		if string(*raw) == "null" {
			*raw = nil
		}
	}
	return nil
}
