// Package gemini implements Google's streamGenerateContent: the request is a JSON object, the response a stream of server-sent
// events.
//
// It owns the conversion of requests to contents, function declarations and a generation config, of chunks to events, and the
// placement of thought signatures. It does not know keys, addresses, retries, or which models exist. The differences between
// generations of models are derived from the model's name in one place ([generationOf]).
//
// Start with [Protocol].
package gemini

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Protocol is the format. The zero value is ready to use.
type Protocol struct{}

var _ protocol.Protocol = Protocol{}

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "gemini" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingSSE }

// Path implements [protocol.Protocol]. An ID with its collection, as tuned models have, is used unchanged.
func (Protocol) Path(r *protocol.Request) string {
	collection, id, ok := strings.Cut(modelID(r), "/")
	if !ok || collection != "models" && collection != "tunedModels" {
		collection, id = "models", modelID(r)
	}
	return "/" + collection + "/" + url.PathEscape(id) + ":streamGenerateContent?alt=sse"
}

// Body implements [protocol.Protocol].
func (Protocol) Body(r *protocol.Request) ([]byte, error) {
	var opts Options
	err := protocol.ReadOptions(r, OptionsKey, &opts)
	if err != nil {
		return nil, err
	}
	r = protocol.Normalised(r)
	l := lowering{r: r, gen: generationOf(modelID(r))}
	b := body{
		CachedContent:  opts.CachedContent,
		SafetySettings: opts.SafetySettings,
		ServiceTier:    cmp.Or(opts.ServiceTier, serviceTier(r.ServiceTier)),
		Labels:         opts.Labels,
	}
	if b.Contents, err = l.lower(); err != nil {
		return nil, err
	}
	if b.GenerationConfig, err = l.generationConfig(opts); err != nil {
		return nil, err
	}
	if opts.CachedContent != "" {
		// The cached content includes them, and a request that repeats them is rejected.
		if len(r.System) > 0 || len(r.Tools) > 0 || len(r.HostedTools) > 0 {
			r.Warning("the system text and the tools are those of the cached content; the request's own were left out")
		}
		return encode(b)
	}
	if len(r.System) > 0 {
		b.SystemInstruction = &content{Parts: []part{textPart(strings.Join(r.System, "\n"))}}
	}
	if b.Tools, b.ToolConfig, err = l.tools(); err != nil {
		return nil, err
	}
	return encode(b)
}

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder { return newDecoder(r) }

func modelID(r *protocol.Request) string { return cmp.Or(r.Model.ID, r.Request.Model) }

// serviceTier maps the tiers that other vendors also have; their default has no name here.
func serviceTier(tier string) string {
	if tier == "auto" || tier == "default" {
		return ""
	}
	return tier
}

func encode(b body) ([]byte, error) {
	out, err := protocol.Encode(b)
	if err != nil {
		return nil, protocol.Invalid("", "the request can't be written as JSON: %v", err)
	}
	return out, nil
}
