// Package chat is the wire format of OpenAI's Chat Completions, which most vendors of models speak in a dialect of theirs.
//
// It owns: lowering a request into a body, raising the chunks of an answer into events, and what a body must carry so that
// a vendor gets back what is its own: reasoning in the field it came in, structured reasoning entries, signatures on calls.
// It must not know: any vendor by name; what is special about one stands in [protocol.Compat].
//
// Provider options under the request's namespace are a JSON overlay: the object is merged into the finished body, objects
// field by field, all else replaced, and null takes a field out.
//
// Start with [Protocol].
package chat

import "github.com/gantry-agent/gantry/providers/protocol"

// Protocol is the format. The zero value is ready.
type Protocol struct{}

// Metadata that comes with answers and goes back to the same vendor.
const (
	metaField   = "reasoningField"   // reasoning: the field it came in
	metaDetails = "reasoningDetails" // reasoning: structured entries
	metaExtra   = "extraContent"     // call: an object beside the function, where Gemini keeps its signature
)

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "openai-chat" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingSSE }

// Path implements [protocol.Protocol].
func (Protocol) Path(*protocol.Request) string { return "/chat/completions" }

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder { return newDecoder(r) }
