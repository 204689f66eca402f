// Package responses is the wire format of OpenAI's Responses API, as OpenAI and the vendors that copied it speak it.
//
// It owns: the JSON of a request, the events of its stream, and what must come back unchanged with the next request:
// item ids, encrypted reasoning, items of tools that the vendor ran. It must not know: addresses, keys, retries.
//
// Start with [Protocol]; what a user can set beyond the canonical request is in [Options].
package responses

import "github.com/gantry-agent/gantry/providers/protocol"

// Protocol is the format. The zero value is ready.
type Protocol struct{}

var _ protocol.Protocol = Protocol{}

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "openai-responses" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingSSE }

// Path implements [protocol.Protocol].
func (Protocol) Path(*protocol.Request) string { return "/responses" }

// Body implements [protocol.Protocol]. The same request always gives the same bytes, and a history that has only grown
// keeps its leading items byte for byte: the vendor's prompt cache lives from that.
func (Protocol) Body(r *protocol.Request) ([]byte, error) {
	r = protocol.Normalised(r)
	opts, err := optionsOf(r)
	if err != nil {
		return nil, err
	}
	b, err := newBody(r, opts)
	if err != nil {
		return nil, err
	}
	out, err := protocol.Encode(b)
	if err != nil {
		return nil, protocol.Invalid("", "the request can't be written as JSON: %v", err)
	}
	return out, nil
}

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder { return newDecoder(r) }
