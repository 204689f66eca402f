// Package responses implements the wire format of OpenAI's Responses API, as used by OpenAI and compatible vendors.
//
// It owns the JSON of a request, the events of its stream, and what must be sent back unchanged with the next request: item IDs,
// encrypted reasoning, items of tools that the vendor ran. It does not know addresses, keys or retries.
//
// Start with [Protocol]; settings beyond the canonical request are in [Options].
package responses

import "github.com/gantry-agent/gantry/providers/protocol"

// Protocol is the format. The zero value is ready to use.
type Protocol struct{}

var _ protocol.Protocol = Protocol{}

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "openai-responses" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingSSE }

// Path implements [protocol.Protocol].
func (Protocol) Path(*protocol.Request) string { return "/responses" }

// Body implements [protocol.Protocol]. Equal requests give equal bytes, and a history that only grows keeps its leading items byte
// for byte, which the vendor's prompt cache depends on.
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
