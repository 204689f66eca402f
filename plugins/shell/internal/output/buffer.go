// Package output stores the output of a command: all of it if it is short, otherwise its head and tail.
//
// It owns: the limit, what is dropped and how it is counted, and the conversion of bytes to text. It must not know: processes, sessions, or
// how much text a model may read.
//
// Start with [Buffer].
package output

import (
	"fmt"
	"slices"
)

// Buffer stores the first bytes in one half of its capacity, and the last bytes in the other half. It is not safe for concurrent use. The
// zero value stores nothing and only counts.
type Buffer struct {
	headCap, tailCap int

	head    []byte
	tail    []byte // a ring buffer when it is full
	start   int    // index of the oldest byte in the full ring
	omitted int64
}

// New returns a buffer for capacity bytes, which are allocated as needed.
func New(capacity int) *Buffer {
	capacity = max(capacity, 0)
	return &Buffer{headCap: capacity / 2, tailCap: capacity - capacity/2}
}

// NewTail returns a buffer that stores only the last bytes.
func NewTail(capacity int) *Buffer { return &Buffer{tailCap: capacity} }

// Bytes returns a copy of the stored bytes, without a mark where bytes were omitted.
func (b *Buffer) Bytes() []byte {
	return slices.Concat(b.head, b.tail[b.start:], b.tail[:b.start])
}

// Text returns the stored bytes as text.
func (b *Buffer) Text() string { return Text(b.Bytes()) }

// Write implements [io.Writer]. It never fails.
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
	if drop := len(p) - b.tailCap; drop > 0 { // only the end of p fits
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

// Absorb appends the output of another buffer, including its count of omitted bytes.
func (b *Buffer) Absorb(o Output) {
	b.Write(o.Head)
	b.omitted += o.Omitted
	b.writeTail(o.Tail)
}

// Len returns the number of stored bytes.
func (b *Buffer) Len() int { return len(b.head) + len(b.tail) }

// Drain returns the stored output and empties the buffer.
func (b *Buffer) Drain() Output {
	o := Output{Head: b.head, Tail: slices.Concat(b.tail[b.start:], b.tail[:b.start]), Omitted: b.omitted}
	b.head, b.tail, b.start, b.omitted = nil, nil, 0, 0
	return o
}

// Output is the content of a buffer. Omitted bytes are missing between Head and Tail.
type Output struct {
	Head, Tail []byte
	Omitted    int64
}

// Total returns the number of bytes that the command wrote.
func (o Output) Total() int64 { return int64(len(o.Head)+len(o.Tail)) + o.Omitted }

// Tokens estimates the number of tokens of the complete output, at four bytes per token.
func (o Output) Tokens() int64 { return (o.Total() + 3) / 4 }

// DropFirst removes n bytes from the beginning.
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

// Fit returns the output, reduced to capacity bytes.
func (o Output) Fit(capacity int) Output {
	if len(o.Head)+len(o.Tail) <= capacity {
		return o
	}
	b := New(capacity)
	b.Absorb(o)
	return b.Drain()
}

// Joined returns the output as text, without a mark where bytes are missing.
func (o Output) Joined() string {
	if len(o.Tail) == 0 {
		return Text(o.Head)
	}
	return Text(append(o.Head[:len(o.Head):len(o.Head)], o.Tail...))
}

// Text returns the output as text, with a line about the omitted bytes.
func (o Output) Text() string {
	if o.Omitted == 0 {
		return o.Joined()
	}
	return fmt.Sprintf("%s\n... %d bytes omitted ...\n%s", Text(o.Head), o.Omitted, Text(o.Tail))
}
