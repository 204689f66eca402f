// Package converse is the wire format of Amazon Bedrock's ConverseStream, one form for the models of many vendors.
//
// It owns: how a request becomes a body and the events of a stream become ours, and which fields of a model's own go along
// ([Options], the styles of thinking). It must not know: keys, signatures, regions, how binary frames are read, which
// models exist; what is special about a model stands in [protocol.Compat].
//
// Start with [Protocol].
package converse

import (
	"cmp"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Namespace is the service's key for options, and for metadata where the request names no other.
const Namespace = "bedrock"

// Protocol is the format. The zero value is ready. It is read in the framing of AWS, which a program adds.
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

// escaped leaves alone only what no part of an address gives a meaning to: a signature is over the path as it is sent, and
// an id may hold colons and slashes.
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

// withNamespace fills in the namespace of a request that has none.
func withNamespace(r *protocol.Request) *protocol.Request {
	if r.Namespace != "" {
		return r
	}
	out := *r
	out.Namespace = Namespace
	return &out
}
