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
}

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

// buffer keeps the beginning and the end of what is written.
type buffer struct {
	head, tail []byte
	total      int64
}

func (b *buffer) write(p []byte) {
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
	o := Output{Head: b.head, Tail: b.tail[max(0, len(b.tail)-halfOutput):]}
	o.Omitted = b.total - int64(len(o.Head)+len(o.Tail))
	*b = buffer{}
	return o
}
