package kernel

import (
	"fmt"
	"strings"
)

// halfOutput is the size of the beginning and of the end of the output that are kept.
const halfOutput = 512 << 10

// Output is output whose middle may be missing.
type Output struct {
	Head, Tail []byte
	Omitted    int64 // bytes between them

	turns []turn
}

// turn is where output begins to be written to sys.stderr, or no longer is.
type turn struct {
	at     int64 // bytes before it
	stderr bool
}

// maxTurns is the maximum number of turns that are known; what follows the last one counts like it.
const maxTurns = 2000

// Total returns the size of all output.
func (o Output) Total() int64 { return int64(len(o.Head)+len(o.Tail)) + o.Omitted }

// String returns the output as text, with a line in place of what is missing.
func (o Output) String() string {
	if o.Omitted == 0 {
		return strings.ToValidUTF8(string(o.Head)+string(o.Tail), "\uFFFD")
	}
	return strings.ToValidUTF8(string(o.Head), "\uFFFD") + fmt.Sprintf("\n[%d bytes of output omitted]\n", o.Omitted) +
		strings.ToValidUTF8(string(o.Tail), "\uFFFD")
}

// Stream is output that was written in one piece to one of Python's streams.
type Stream struct {
	Stderr bool
	Text   string
}

// Streams returns the output in the order of writing. Only what Python itself has written to sys.stderr is known to be so: C libraries
// and other processes write to the same pipe.
func (o Output) Streams() []Stream {
	var out []Stream
	total, tail := o.Total(), int64(len(o.Head))+o.Omitted
	for i, t := range append([]turn{{}}, o.turns...) {
		from, to := t.at, total
		if i < len(o.turns) {
			to = o.turns[i].at
		}
		text := clip(o.Head, from, to)
		if head := int64(len(o.Head)); o.Omitted > 0 && from <= head && head < to {
			text += fmt.Sprintf("\n[%d bytes of output omitted]\n", o.Omitted)
		}
		text += clip(o.Tail, from-tail, to-tail)
		if text != "" {
			out = append(out, Stream{t.stderr, strings.ToValidUTF8(text, "\uFFFD")})
		}
	}
	return out
}

// clip returns the bytes from one position to another one, as far as they exist.
func clip(b []byte, from, to int64) string {
	n := int64(len(b))
	from, to = max(0, min(from, n)), max(0, min(to, n))
	return string(b[from:max(from, to)])
}

// buffer keeps the beginning and the end of what is written.
type buffer struct {
	head, tail []byte
	total      int64
	turns      []turn
}

func (b *buffer) write(p []byte, stderr bool) {
	if n := len(b.turns); len(p) > 0 && n < maxTurns && stderr != (n > 0 && b.turns[n-1].stderr) {
		b.turns = append(b.turns, turn{b.total, stderr})
	}
	b.total += int64(len(p))
	if room := halfOutput - len(b.head); room > 0 {
		n := min(room, len(p))
		b.head = append(b.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > halfOutput {
		p = p[len(p)-halfOutput:]
	}
	if len(b.tail)+len(p) > 2*halfOutput {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-halfOutput:]...)
	}
	b.tail = append(b.tail, p...)
}

// take returns what was written, and empties the buffer.
func (b *buffer) take() Output {
	o := Output{Head: b.head, Tail: b.tail[max(0, len(b.tail)-halfOutput):], turns: b.turns}
	o.Omitted = b.total - int64(len(o.Head)+len(o.Tail))
	*b = buffer{}
	return o
}
