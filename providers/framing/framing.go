// Package framing splits the bytes of a model's response into frames.
//
// It owns the rules of server-sent events and of newline-delimited JSON, however the bytes are split in transit. It does not know
// what a frame means, where the bytes come from, or how long to wait for them.
//
// Start with [New].
package framing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// MaxLine is the default limit for a line and for the data of an event, in bytes.
const MaxLine = 32 << 20

// Decoder receives bytes as they arrive and emits each frame as soon as it is complete. A frame's data is valid until emit
// returns, and emit must not modify it. An error of emit stops the decoder and is returned unchanged; the decoder's own errors are
// of type *[llm.Error]. After an error the decoder cannot be used again. It is not safe for concurrent use.
type Decoder interface {
	Write(p []byte, emit func(protocol.Frame) error) error
	// Close handles the end of the input. It emits a last frame that only lacks its terminator; an incomplete one is an error with
	// the code [llm.ErrIncompleteStream].
	Close(emit func(protocol.Frame) error) error
}

// Framer is a protocol with its own framing, so that only programs that use it link the code for it.
type Framer interface {
	// Frames returns a decoder for one response. maxFrame limits an incomplete frame.
	Frames(maxFrame int) Decoder
}

// For returns a decoder for one response in a protocol: the protocol's own, or the one for its framing. maxLine limits a line; 0
// means [MaxLine].
func For(p protocol.Protocol, maxLine int) (Decoder, error) {
	if f, ok := p.(Framer); ok {
		return f.Frames(cmp.Or(max(maxLine, 0), MaxLine)), nil
	}
	return New(p.Framing(), maxLine)
}

// New returns a decoder for one response in a framing of this package. maxLine limits a line; 0 means [MaxLine].
func New(f protocol.Framing, maxLine int) (Decoder, error) {
	if maxLine <= 0 {
		maxLine = MaxLine
	}
	switch f {
	case protocol.FramingSSE:
		return &sse{max: maxLine}, nil
	case protocol.FramingNDJSON:
		return &ndjson{max: maxLine}, nil
	}
	return nil, fmt.Errorf("no decoder for the framing %d: its protocol must provide one", f)
}

func tooLong(limit int) error {
	return &llm.Error{
		Code: llm.ErrInvalidOutput, Message: fmt.Sprintf("a line of the answer is longer than %d bytes", limit),
	}
}

// complete reports whether data without a terminator is complete.
func complete(data []byte) bool { return isDone(data) || json.Valid(data) }

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

// frame returns the frame for data that is not blank.
func frame(event string, data []byte) protocol.Frame {
	if isDone(data) {
		return protocol.Frame{Event: event, Done: true}
	}
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return protocol.Frame{Event: event, Data: data}
}

func blank(data []byte) bool {
	for _, c := range data {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
