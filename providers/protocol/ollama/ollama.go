// Package ollama implements Ollama's own chat API: the request is a JSON object, the response one JSON object per line.
//
// Unlike the server's OpenAI-compatible API, it accepts the context size in the request, so that a long prompt is neither
// truncated silently nor rejected because of a size that the user did not choose.
//
// It owns the conversion of requests to messages and options and of lines to events, and the meaning of what the server reports
// about itself and its models. It does not know where the server is or how it is queried; that is package ollamahost.
//
// Start with [Protocol].
package ollama

import (
	"cmp"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Protocol is the format. The zero value is ready to use.
type Protocol struct{}

var _ protocol.Protocol = Protocol{}

// ID implements [protocol.Protocol].
func (Protocol) ID() string { return "ollama-chat" }

// Framing implements [protocol.Protocol].
func (Protocol) Framing() protocol.Framing { return protocol.FramingNDJSON }

// Path implements [protocol.Protocol].
func (Protocol) Path(*protocol.Request) string { return "/api/chat" }

// Body implements [protocol.Protocol].
func (Protocol) Body(r *protocol.Request) ([]byte, error) {
	opts, err := readOptions(r)
	if err != nil {
		return nil, err
	}
	r = protocol.Normalised(r)
	h := history{r: r}
	b := body{
		Model: modelID(r), Tools: tools(r), Format: opts.Format, KeepAlive: opts.KeepAlive, Stream: true,
		Truncate: cmp.Or(opts.Truncate, new(false)), Shift: cmp.Or(opts.Shift, new(false)),
		Options: runOptions{Runner: opts.Runner, Sampling: sampling(r)},
	}
	if b.Messages, err = h.lower(); err != nil {
		return nil, err
	}
	if b.Think, err = think(r, opts.Think); err != nil {
		return nil, err
	}
	if len(b.Format) == 0 {
		b.Format = r.OutputSchema
	}
	for _, kind := range r.HostedTools {
		r.Warning("the hosted tool " + kind + " was left out: Ollama runs none")
	}
	out, err := protocol.Encode(b)
	if err != nil {
		return nil, protocol.Invalid("", "the request can't be written as JSON: %v", err)
	}
	return out, nil
}

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder { return newDecoder(r) }

func modelID(r *protocol.Request) string { return cmp.Or(r.Model.ID, r.Request.Model) }
