// Package converse implements the wire format of Amazon Bedrock's ConverseStream, a common format for the models of many vendors.
//
// It owns the conversion of requests to bodies and of stream events to ours, and the model-specific fields ([Options], the styles
// of thinking). It does not know keys, signatures, regions, how binary frames are decoded, or which models exist; a model's
// peculiarities are in [protocol.Compat].
//
// Start with [Protocol].
package converse

import (
	"cmp"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Namespace is the service's key for options, and for metadata if the request sets no other.
const Namespace = "bedrock"

// Protocol is the format. The zero value is ready to use. It uses AWS's framing, which a program adds.
type Protocol struct{}

var _ protocol.Protocol = Protocol{}

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "bedrock-converse" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingEventStream }

// Path implements [protocol.Protocol].
func (Protocol) Path(r *protocol.Request) string {
	return "/model/" + escaped(modelID(r)) + "/converse-stream"
}

func modelID(r *protocol.Request) string { return cmp.Or(r.Model.ID, r.Request.Model) }

// escaped escapes everything except unreserved characters: the signature covers the path as it is sent, and an ID may contain
// colons and slashes.
func escaped(id string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// withNamespace sets the default namespace of a request.
func withNamespace(r *protocol.Request) *protocol.Request {
	if r.Namespace != "" {
		return r
	}
	out := *r
	out.Namespace = Namespace
	return &out
}
