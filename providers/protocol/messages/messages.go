// Package messages is the wire format of Anthropic's Messages API.
//
// It owns: how a request becomes a body and a stream becomes events ([Protocol]), the options that only this format has
// ([Options]), and which beta tokens a body needs ([Protocol.Betas]). It must not know: addresses, keys, who sets headers,
// who asks again.
//
// Start with [Protocol.Body] and [Protocol.Decode].
package messages

import (
	"cmp"
	"net/url"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Namespace is the vendor's key for options, and for metadata where the request names no other.
const Namespace = "anthropic"

// Headers that a request carries beside its key.
const (
	VersionHeader = "anthropic-version"
	Version       = "2023-06-01"
	BetaHeader    = "anthropic-beta" // the tokens of [Betas], joined by commas
	vertexVersion = "vertex-2023-10-16"
)

// Protocol is the format. The zero value is the form of Anthropic itself and of those that copy it.
type Protocol struct {
	// Vertex is the form of Google's Vertex AI: the path names the model and the body the version, in place of the
	// header. Its base URL ends in "/publishers/anthropic/models".
	Vertex bool
}

var _ protocol.Protocol = Protocol{}

// ID implements [protocol.Protocol].
func (p Protocol) ID() string {
	if p.Vertex {
		return "anthropic-messages-vertex"
	}
	return "anthropic-messages"
}

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingSSE }

// Path implements [protocol.Protocol].
func (p Protocol) Path(r *protocol.Request) string {
	if p.Vertex {
		return "/" + url.PathEscape(modelID(r)) + ":streamRawPredict"
	}
	return "/messages"
}

func modelID(r *protocol.Request) string { return cmp.Or(r.Model.ID, r.Request.Model) }

// withNamespace fills in the namespace of a request that has none.
func withNamespace(r *protocol.Request) *protocol.Request {
	if r.Namespace != "" {
		return r
	}
	out := *r
	out.Namespace = Namespace
	return &out
}
