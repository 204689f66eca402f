package framing

import (
	"bytes"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// sse reads server-sent events. Lines end at LF, CR or CRLF. Where an event's one line of data lies within one write it is
// handed on without a copy.
type sse struct {
	max    int
	bom    int    // how many bytes of a byte order mark have come; beyond its length: the beginning is over
	skipLF bool   // the last byte was a CR: an LF belongs to it
	line   []byte // a line's beginning, from earlier writes
	event  string
	names  map[string]string // names of events that were seen, so that they are made once

	data    []byte // the event's data so far, joined
	direct  []byte // or its only line, inside of line or of the bytes being written
	hasData bool
}

const bom = "\uFEFF"

// What a vendor can make us remember is bounded.
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
	// Each search goes on where the one before ended, so that a write of many lines is looked through once for each mark.
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
		d.line = d.line[:0] // direct may lie in it: nothing is written there before keep
	}
	d.keep()
	if len(d.line)+len(p)-at > d.max {
		return tooLong(d.max)
	}
	d.line = append(d.line, p[at:]...)
	return nil
}

// next is the first c at or after at; len(p) when there is none. known is the answer to the question before.
func next(p []byte, c byte, at, known int) int {
	if known >= at {
		return known
	}
	if i := bytes.IndexByte(p[at:], c); i >= 0 {
		return at + i
	}
	return len(p)
}

// take reads one line.
func (d *sse) take(line []byte, emit func(protocol.Frame) error) error {
	if len(line) == 0 {
		return d.dispatch(emit)
	}
	field, value, found := bytes.Cut(line, []byte(":"))
	if value = bytes.TrimPrefix(value, []byte(" ")); !found {
		value = line[len(line):] // empty, but there
	}
	switch string(field) {
	case "event":
		d.event = d.name(value)
	case "data":
		return d.add(value)
	}
	return nil // a comment has no name; ids serve reconnection, which no vendor offers for answers
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

// keep copies data whose bytes are about to change.
func (d *sse) keep() {
	if d.direct != nil {
		d.data, d.direct = append(d.data[:0], d.direct...), nil
	}
}

// dispatch ends an event. One without data only loses its name.
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
	if s, ok := d.names[string(value)]; ok { // this conversion makes nothing
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
