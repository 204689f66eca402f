// Package framing cuts the bytes of a model's answer into frames.
//
// It owns: the rules of server-sent events and of newline-delimited JSON, however the bytes were split on their way. It
// must not know: what a frame means, where bytes come from, how long one waits for them.
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

// MaxLine is how long a line may grow, and how much data an event may have, unless told otherwise.
const MaxLine = 32 << 20

// Decoder takes bytes as they come and hands on each frame as soon as it is whole. A frame's data is valid until emit
// returns; emit must not change it. An error of emit stops the decoder and is returned as it is; one of the decoder's own
// is an *[llm.Error]. After an error a decoder is spent. For one goroutine.
type Decoder interface {
	Write(p []byte, emit func(protocol.Frame) error) error
	// Close takes the end of the bytes. It emits a last frame that only lacks its end mark; one that was cut off is an
	// error with the code [llm.ErrIncompleteStream].
	Close(emit func(protocol.Frame) error) error
}

// Framer is a protocol that brings a framing of its own. What it takes to read one is then in the programs that use it
// alone.
type Framer interface {
	// Frames returns a decoder for one answer. maxFrame bounds what it holds of a frame that is not whole.
	Frames(maxFrame int) Decoder
}

// For returns a decoder for one answer in a protocol: the protocol's own, or the one for its framing. maxLine bounds a line,
// 0 means [MaxLine].
func For(p protocol.Protocol, maxLine int) (Decoder, error) {
	if f, ok := p.(Framer); ok {
		return f.Frames(cmp.Or(max(maxLine, 0), MaxLine)), nil
	}
	return New(p.Framing(), maxLine)
}

// New returns a decoder for one answer in a framing that this package knows. maxLine bounds a line, 0 means [MaxLine].
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
	return nil, fmt.Errorf("no decoder for the framing %d: its protocol has to bring one", f)
}

func tooLong(limit int) error {
	return &llm.Error{
		Code: llm.ErrInvalidOutput, Message: fmt.Sprintf("a line of the answer is longer than %d bytes", limit),
	}
}

// complete reports whether data that lacks its end mark is whole all the same.
func complete(data []byte) bool { return isDone(data) || json.Valid(data) }

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

// frame makes the frame of data that is not blank.
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
