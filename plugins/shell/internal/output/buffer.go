// Package output keeps the output of a command: all of it while it is short, head and tail when it is not.
//
// It owns: the bound, what is dropped and how that is counted, and the way from bytes to text. It must not know: processes,
// sessions, or how much of the text a model may read.
//
// Start with [Buffer].
package output

import (
	"fmt"
	"slices"
)

// Buffer keeps the first half of its capacity as head for ever, and the last bytes in the other half. It is not safe for
// concurrent use. The zero Buffer keeps nothing and counts.
type Buffer struct {
	headCap, tailCap int

	head    []byte
	tail    []byte // a ring once it is full
	start   int    // where the oldest byte of the full ring is
	omitted int64
}

// New returns a buffer for capacity bytes. It grows as it is filled.
func New(capacity int) *Buffer {
	capacity = max(capacity, 0)
	return &Buffer{headCap: capacity / 2, tailCap: capacity - capacity/2}
}

// NewTail returns a buffer that keeps the last bytes only.
func NewTail(capacity int) *Buffer { return &Buffer{tailCap: capacity} }

// Bytes returns a copy of all that is kept; what is missing in the middle leaves no trace.
func (b *Buffer) Bytes() []byte {
	return slices.Concat(b.head, b.tail[b.start:], b.tail[:b.start])
}

// Text returns the kept bytes as text.
func (b *Buffer) Text() string { return Text(b.Bytes()) }

// Write keeps p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.headCap - len(b.head); room > 0 && b.omitted == 0 && len(b.tail) == 0 {
		take := min(room, len(p))
		b.head = append(b.head, p[:take]...)
		p = p[take:]
	}
	b.writeTail(p)
	return n, nil
}

func (b *Buffer) writeTail(p []byte) {
	if drop := len(p) - b.tailCap; drop > 0 { // longer than all the tail: only its end counts
		b.omitted += int64(len(b.tail) + drop)
		b.tail, b.start = b.tail[:0], 0
		p = p[drop:]
	}
	if room := b.tailCap - len(b.tail); room > 0 && len(p) > 0 {
		take := min(room, len(p))
		b.tail = append(b.tail, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		n := copy(b.tail[b.start:], p)
		b.start = (b.start + n) % len(b.tail)
		b.omitted += int64(n)
		p = p[n:]
	}
}

// Absorb takes over what another buffer gave, with the count of what that one had dropped.
func (b *Buffer) Absorb(o Output) {
	b.Write(o.Head)
	b.omitted += o.Omitted
	b.writeTail(o.Tail)
}

// Len is the number of bytes that are kept.
func (b *Buffer) Len() int { return len(b.head) + len(b.tail) }

// Drain returns all that is kept and empties the buffer.
func (b *Buffer) Drain() Output {
	o := Output{Head: b.head, Tail: slices.Concat(b.tail[b.start:], b.tail[:b.start]), Omitted: b.omitted}
	b.head, b.tail, b.start, b.omitted = nil, nil, 0, 0
	return o
}

// Output is what a buffer gave: Omitted bytes are missing between Head and Tail.
type Output struct {
	Head, Tail []byte
	Omitted    int64
}

// Total is the number of bytes that the command wrote.
func (o Output) Total() int64 { return int64(len(o.Head)+len(o.Tail)) + o.Omitted }

// Tokens estimates how many tokens the whole output takes: one for four bytes.
func (o Output) Tokens() int64 { return (o.Total() + 3) / 4 }

// DropFirst takes n bytes off the beginning.
func (o *Output) DropFirst(n int64) {
	drop := func(p []byte) []byte {
		k := min(n, int64(len(p)))
		n -= k
		return p[k:]
	}
	o.Head = drop(o.Head)
	k := min(n, o.Omitted)
	o.Omitted, n = o.Omitted-k, n-k
	o.Tail = drop(o.Tail)
}

// Fit returns the output cut down to capacity bytes.
func (o Output) Fit(capacity int) Output {
	if len(o.Head)+len(o.Tail) <= capacity {
		return o
	}
	b := New(capacity)
	b.Absorb(o)
	return b.Drain()
}

// Joined returns the output as if nothing were missing.
func (o Output) Joined() string {
	if len(o.Tail) == 0 {
		return Text(o.Head)
	}
	return Text(append(o.Head[:len(o.Head):len(o.Head)], o.Tail...))
}

// Text returns the output for reading, with a line about what is missing.
func (o Output) Text() string {
	if o.Omitted == 0 {
		return o.Joined()
	}
	return fmt.Sprintf("%s\n... %d bytes omitted ...\n%s", Text(o.Head), o.Omitted, Text(o.Tail))
}
