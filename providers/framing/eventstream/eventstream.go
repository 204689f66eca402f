// Package eventstream splits AWS's binary event streams into frames.
//
// It owns where a message begins and ends, its checksums, and which headers identify it. It does not know what a message means or
// which service sends it. It is a separate package so that only programs for AWS link AWS's library.
//
// Start with [Over].
package eventstream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
)

// Over returns a protocol with this framing.
func Over(p protocol.Protocol) protocol.Protocol { return framed{p} }

type framed struct{ protocol.Protocol }

var _ framing.Framer = framed{}

// Frames implements [framing.Framer].
func (framed) Frames(maxFrame int) framing.Decoder {
	return &decoder{max: maxFrame, message: eventstream.NewDecoder()}
}

// A message consists of its length, the length of its headers and a checksum of both, followed by the headers, the payload, and a
// checksum of everything.
const (
	prelude  = 12
	checksum = 4
)

type decoder struct {
	max     int
	message *eventstream.Decoder
	pending []byte // the beginning of a message, from earlier writes
	payload []byte // its memory is reused
	reader  bytes.Reader
}

// Write implements [framing.Decoder]. A message that is contained in one write is decoded in place.
func (d *decoder) Write(p []byte, emit func(protocol.Frame) error) error {
	if len(d.pending) > 0 {
		d.pending = append(d.pending, p...)
		p = d.pending
	}
	for len(p) > 0 {
		n, err := d.length(p)
		if err != nil {
			return err
		}
		if n == 0 || n > len(p) {
			break
		}
		if err := d.emit(p[:n], emit); err != nil {
			return err
		}
		p = p[n:]
	}
	d.pending = append(d.pending[:0], p...) // may move the rest of pending to its start
	return nil
}

// length returns the length of the message at the start of p, or 0 if it is not known yet. A corrupt prelude is an error at once.
func (d *decoder) length(p []byte) (int, error) {
	if len(p) < prelude {
		return 0, nil
	}
	total, headers := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	switch {
	case crc32.ChecksumIEEE(p[:8]) != binary.BigEndian.Uint32(p[8:]):
		return 0, protocol.Garbled("a message in the stream has a corrupt header")
	case total < prelude+checksum || headers > total-prelude-checksum:
		return 0, protocol.Garbled("the lengths in a message in the stream are inconsistent")
	case uint64(total) > uint64(d.max):
		return 0, protocol.Garbled(fmt.Sprintf("a message of the stream is longer than %d bytes", d.max))
	}
	return int(total), nil
}

func (d *decoder) emit(raw []byte, emit func(protocol.Frame) error) error {
	d.reader.Reset(raw)
	m, err := d.message.Decode(&d.reader, d.payload)
	if err != nil {
		return protocol.Garbled("a message of the stream can't be read: " + err.Error())
	}
	d.payload = m.Payload[:0]
	f, err := frame(m)
	if err != nil {
		return err
	}
	return emit(f)
}

// frame reads the headers that identify a message.
func frame(m eventstream.Message) (protocol.Frame, error) {
	switch kind := header(m, ":message-type"); kind {
	case "event":
		return protocol.Frame{Event: header(m, ":event-type"), Data: m.Payload}, nil
	case "exception":
		return protocol.Frame{Event: header(m, ":exception-type"), Data: m.Payload, Failed: true}, nil
	case "error":
		message, err := json.Marshal(map[string]string{"message": header(m, ":error-message")})
		if err != nil { // cannot fail: it is a string
			panic("eventstream: encode message: " + err.Error())
		}
		return protocol.Frame{Event: header(m, ":error-code"), Data: message, Failed: true}, nil
	default:
		return protocol.Frame{}, protocol.Garbled(fmt.Sprintf("a message of the stream has the unknown type %q", kind))
	}
}

func header(m eventstream.Message, name string) string {
	v, ok := m.Headers.Get(name).(eventstream.StringValue)
	if !ok {
		return ""
	}
	return string(v)
}

// Close implements [framing.Decoder].
func (d *decoder) Close(func(protocol.Frame) error) error {
	if len(d.pending) > 0 {
		return protocol.Incomplete()
	}
	return nil
}
