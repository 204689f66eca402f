// Package messages implements the wire format of Anthropic's Messages API.
//
// It owns the conversion of requests to bodies and of streams to events ([Protocol]), the options that only this format has
// ([Options]), and the beta features that a body needs ([Protocol.Betas]). It does not know addresses, keys, who sets headers, or
// who retries.
//
// Start with [Protocol.Body] and [Protocol.Decode].
package messages

import (
	"cmp"
	"net/url"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Namespace is the vendor's key for options, and for metadata if the request sets no other.
const Namespace = "anthropic"

// Headers of a request in addition to its key.
const (
	VersionHeader = "anthropic-version"
	Version       = "2023-06-01"
	BetaHeader    = "anthropic-beta" // the result of [Protocol.Betas], joined with commas
	vertexVersion = "vertex-2023-10-16"
)

// Protocol is the format. The zero value is the form of Anthropic itself and of compatible services.
type Protocol struct {
	// Vertex selects the form of Google's Vertex AI: the path contains the model, and the body the version instead of the header.
	// Its base URL ends with "/publishers/anthropic/models".
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

// withNamespace sets the default namespace of a request.
func withNamespace(r *protocol.Request) *protocol.Request {
	if r.Namespace != "" {
		return r
	}
	out := *r
	out.Namespace = Namespace
	return &out
}
