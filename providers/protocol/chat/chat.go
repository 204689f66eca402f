// Package chat implements the wire format of OpenAI's Chat Completions, of which most vendors implement a dialect.
//
// It owns converting a request to a body, the chunks of a response to events, and what a body must contain so that vendors get
// their own data back: reasoning in its original field, structured reasoning entries, signatures of calls. It does not know any
// vendor by name; their peculiarities are in [protocol.Compat].
//
// Provider options under the request's namespace are merged into the finished body: objects field by field, everything else is
// replaced, and null removes a field.
//
// Start with [Protocol].
package chat

import "github.com/gantry-agent/gantry/providers/protocol"

// Protocol is the format. The zero value is ready to use.
type Protocol struct{}

// Metadata of responses that is sent back to the same vendor.
const (
	metaField   = "reasoningField"   // reasoning: its original field
	metaDetails = "reasoningDetails" // reasoning: structured entries
	metaExtra   = "extraContent"     // call: an object next to the function, in which Gemini keeps its signature
)

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "openai-chat" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingSSE }

// Path implements [protocol.Protocol].
func (Protocol) Path(*protocol.Request) string { return "/chat/completions" }

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder { return newDecoder(r) }
