package framing

import (
	"bytes"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// ndjson decodes one JSON value per line. A line that is contained in one write is not copied.
type ndjson struct {
	max  int
	line []byte // the beginning of a line, from earlier writes
}

// Write implements [Decoder].
func (d *ndjson) Write(p []byte, emit func(protocol.Frame) error) error {
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			end = len(p)
		}
		if len(d.line)+end > d.max {
			return tooLong(d.max)
		}
		if end == len(p) {
			d.line = append(d.line, p...)
			return nil
		}
		line := p[:end]
		if len(d.line) > 0 {
			d.line = append(d.line, line...)
			line = d.line
		}
		d.line, p = d.line[:0], p[end+1:]
		if blank(line) {
			continue
		}
		if err := emit(frame("", bytes.TrimSuffix(line, []byte("\r")))); err != nil {
			return err
		}
	}
}

// Close implements [Decoder].
func (d *ndjson) Close(emit func(protocol.Frame) error) error {
	line := bytes.TrimSuffix(d.line, []byte("\r"))
	d.line = nil
	if blank(line) {
		return nil
	}
	if !complete(line) {
		return protocol.Incomplete()
	}
	return emit(frame("", line))
}
