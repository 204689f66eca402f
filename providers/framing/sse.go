package framing

import (
	"bytes"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// sse decodes server-sent events. Lines end with LF, CR or CRLF. The data of an event with a single line is not copied if one
// write contains it.
type sse struct {
	max    int
	bom    int    // bytes of a byte order mark received; larger than its length once the beginning is over
	skipLF bool   // the last byte was a CR, so a following LF belongs to it
	line   []byte // the beginning of a line, from earlier writes
	event  string
	names  map[string]string // interned names of events

	data    []byte // the event's data so far, joined
	direct  []byte // or its only line, which is part of line or of the bytes being written
	hasData bool
}

const bom = "\uFEFF"

// Limits for the interned names.
const (
	maxNames = 64
	maxName  = 128
)

// Write implements [Decoder].
func (d *sse) Write(p []byte, emit func(protocol.Frame) error) error {
	for d.bom < len(bom) && len(p) > 0 {
		if p[0] != bom[d.bom] {
			d.line = append(d.line, bom[:d.bom]...)
			d.bom = len(bom)
			break
		}
		d.bom++
		p = p[1:]
	}
	// Each search continues where the previous one ended, so that a write with many lines is scanned once per terminator.
	lf, cr := -1, -1
	at := 0
	for at < len(p) {
		if d.skipLF {
			d.skipLF = false
			if p[at] == '\n' {
				at++
				continue
			}
		}
		lf, cr = next(p, '\n', at, lf), next(p, '\r', at, cr)
		end := min(lf, cr)
		if end == len(p) {
			break
		}
		line := p[at:end]
		if len(d.line)+len(line) > d.max {
			return tooLong(d.max)
		}
		if len(d.line) > 0 {
			d.line = append(d.line, line...)
			line = d.line
		}
		d.skipLF = p[end] == '\r'
		at = end + 1
		if err := d.take(line, emit); err != nil {
			return err
		}
		d.line = d.line[:0] // direct may be part of it: it is not overwritten before keep
	}
	d.keep()
	if len(d.line)+len(p)-at > d.max {
		return tooLong(d.max)
	}
	d.line = append(d.line, p[at:]...)
	return nil
}

// next returns the index of the first c at or after at, or len(p). known is the result of the previous search.
func next(p []byte, c byte, at, known int) int {
	if known >= at {
		return known
	}
	if i := bytes.IndexByte(p[at:], c); i >= 0 {
		return at + i
	}
	return len(p)
}

// take handles a line.
func (d *sse) take(line []byte, emit func(protocol.Frame) error) error {
	if len(line) == 0 {
		return d.dispatch(emit)
	}
	field, value, found := bytes.Cut(line, []byte(":"))
	if value = bytes.TrimPrefix(value, []byte(" ")); !found {
		value = line[len(line):] // empty, but not nil
	}
	switch string(field) {
	case "event":
		d.event = d.name(value)
	case "data":
		return d.add(value)
	}
	return nil // a comment has no name; IDs are for reconnecting, which no vendor supports for responses
}

func (d *sse) add(value []byte) error {
	if !d.hasData {
		d.hasData, d.direct = true, value
		return nil
	}
	d.keep()
	if len(d.data)+1+len(value) > d.max {
		return tooLong(d.max)
	}
	d.data = append(append(d.data, '\n'), value...)
	return nil
}

// keep copies data before its buffer is overwritten.
func (d *sse) keep() {
	if d.direct != nil {
		d.data, d.direct = append(d.data[:0], d.direct...), nil
	}
}

// dispatch ends an event. An event without data is discarded.
func (d *sse) dispatch(emit func(protocol.Frame) error) error {
	data, event := d.pending(), d.event
	d.event, d.hasData, d.direct = "", false, nil
	if blank(data) {
		return nil
	}
	return emit(frame(event, data))
}

func (d *sse) pending() []byte {
	switch {
	case !d.hasData:
		return nil
	case d.direct != nil:
		return d.direct
	}
	return d.data
}

func (d *sse) name(value []byte) string {
	if s, ok := d.names[string(value)]; ok { // the compiler does not allocate for this conversion
		return s
	}
	s := strings.ToValidUTF8(string(value), "\uFFFD")
	if len(d.names) < maxNames && len(s) < maxName {
		if d.names == nil {
			d.names = map[string]string{}
		}
		d.names[string(value)] = s
	}
	return s
}

// Close implements [Decoder].
func (d *sse) Close(emit func(protocol.Frame) error) error {
	if len(d.line) > 0 {
		if err := d.take(d.line, emit); err != nil {
			return err
		}
	}
	data := d.pending()
	if !blank(data) && !complete(data) {
		return protocol.Incomplete()
	}
	return d.dispatch(emit)
}
