// Package record stores the output of a program in memory that outlives the process which reads it: output that was read
// but not delivered is available to the next process, each byte exactly once, even if the reader was killed.
//
// It owns: the size limit (head and tail of undelivered output), which output is dropped and how it is counted, the layout
// of the memory and its state after a crash. It must not know: where the memory comes from, what reads the program's
// output, who takes it.
//
// Start with [New] for a program that was started, and with [Open] for one that was adopted.
package record

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrForeign is returned by Open for memory that contains no record, or one with a different layout.
var ErrForeign = errors.New("record: the memory contains no record of this format")

const (
	// landing is the maximum size of a read.
	landing = 32 << 10
	// firstRead is the size of the first read. Most programs write little, and memory that is not touched costs nothing.
	firstRead = 4 << 10
	// unread is the byte with which the landing area is filled before a read. After a crash, the bytes that differ show what a
	// read has written. A piece that ends with this byte would be truncated, but it doesn't occur in UTF-8.
	unread = 0xFF
	// maxName is the maximum length of the name under which output is taken.
	maxName = 256
)

// Output is the output of a program; Omitted bytes are missing between Head and Tail.
type Output struct {
	Head, Tail []byte
	Omitted    int64
}

// Total returns the number of bytes that the program wrote.
func (o Output) Total() int64 { return int64(len(o.Head)+len(o.Tail)) + o.Omitted }

// Record stores output that has not been taken yet. One goroutine may read into it while others take from it.
type Record struct {
	mu     sync.Mutex
	mem    *memory // nil after Close
	st     state
	chunk  int    // size of the next read
	filled int    // how much of the landing area has been filled with unread
	used   int    // how much of that the last read has overwritten
	closed []byte // the buffer for reads after Close
}

// Size returns the size of the memory for a record with the given capacity.
func Size(capacity int) int { return newLayout(capacity).size }

// New creates a record that stores up to capacity bytes, the first half from the beginning and the second from the end of the
// output. mem must have at least [Size] bytes, all zero, and must stay mapped until [Record.Close]. If it is nil, the record
// does not outlive this process.
func New(mem []byte, capacity int) (*Record, error) {
	l := newLayout(capacity)
	if mem == nil {
		mem = make([]byte, l.size)
	}
	m, err := newMemory(mem, l)
	if err != nil {
		return nil, err
	}
	r := &Record{mem: m, chunk: firstRead, st: state{pending: none}}
	m.begin()
	m.store(&r.st)
	return r, nil
}

// Open continues the record of an earlier process. Output that was taken under a name for which answered returns false is
// available again, because it was never delivered.
func Open(mem []byte, answered func(name string) bool) (*Record, error) {
	m, st, err := openMemory(mem)
	if err != nil {
		return nil, err
	}
	r := &Record{mem: m, st: st, chunk: firstRead}
	if r.st.pending != none && !answered(r.st.name) {
		r.untake()
	}
	if n := r.st.reading; n > 0 { // a read was in progress
		r.commit(len(bytes.TrimRight(m.landing()[:n], "\xFF")))
	}
	return r, nil
}

// untake puts the output that was taken back in front of newer output.
func (r *Record) untake() {
	next := r.st
	next.bank = r.st.free()
	next.extent = extent{}
	for _, from := range []part{{r.st.pending, r.st.taken}, {r.st.bank, r.st.extent}} {
		o := r.mem.output(from)
		r.mem.write(&next, o.Head)
		next.extent.omitted += o.Omitted
		r.mem.writeTail(&next, o.Tail)
	}
	next.pending, next.taken, next.name = none, extent{}, ""
	r.st = next
	r.mem.store(&r.st)
}

// ReadPiece reads one piece of output into the record and returns it; the bytes are valid until the next ReadPiece. Only
// one goroutine may call it. It requires a source that writes nothing beyond the bytes that it returns: bytes that are read
// directly into the record are not lost if the process is killed before the next instruction.
func (r *Record) ReadPiece(src io.Reader) ([]byte, error) {
	space := r.space()
	n, err := src.Read(space)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem != nil {
		r.commit(n)
	}
	return space[:n], err
}

// space returns the buffer for the next read. After Close, it is not part of the record.
func (r *Record) space() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil {
		if r.closed == nil {
			r.closed = make([]byte, landing)
		}
		return r.closed
	}
	space := r.mem.landing()[:r.chunk]
	fill(space[:min(r.used, len(space))])
	fill(space[min(r.filled, len(space)):])
	r.used, r.filled = 0, max(r.filled, len(space))
	r.st.reading = len(space)
	r.mem.store(&r.st)
	return space
}

func fill(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = unread
	for n := 1; n < len(b); n *= 2 { // copying is much faster than storing single bytes
		copy(b[n:], b[:n])
	}
}

// commit adds the n bytes of a read to the output.
func (r *Record) commit(n int) {
	next := r.st
	r.mem.write(&next, r.mem.landing()[:n])
	next.total += int64(n)
	next.reading = 0
	r.st = next
	r.mem.store(&r.st)
	r.used = n
	if n == r.chunk {
		r.chunk = min(2*r.chunk, landing)
	}
}

// Take returns all output that has not been taken. leave returns how many bytes at the end to keep for the next Take, for
// example an incomplete character; nil: none. Until the next Take, the record remembers this output and the name (at most
// 256 bytes) under which it was taken.
func (r *Record) Take(name string, leave func(end []byte) int) Output {
	name = name[:min(len(name), maxName)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil {
		return Output{}
	}
	o := r.mem.output(part{r.st.bank, r.st.extent})
	next := r.st
	next.pending, next.taken, next.name = r.st.bank, r.st.extent, name
	next.bank, next.extent = r.st.free(), extent{}
	end := &o.Head
	if len(o.Tail) > 0 {
		end = &o.Tail
	}
	if leave != nil {
		stays := (*end)[len(*end)-leave(*end):]
		r.mem.write(&next, stays)
		*end = (*end)[:len(*end)-len(stays)]
		next.taken.cut(len(stays))
	}
	r.st = next
	r.mem.store(&r.st)
	return o
}

// Taker returns the name under which output was last taken; empty if none was taken, or if it is available again.
func (r *Record) Taker() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.st.name
}

// Peek returns the same output as Take, without taking it.
func (r *Record) Peek() Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil {
		return Output{}
	}
	return r.mem.output(part{r.st.bank, r.st.extent})
}

// Total returns the number of bytes that the program has written so far, including those read by earlier processes.
func (r *Record) Total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.st.total
}

// SetMark stores a caller-defined number with the output. It is initially 0.
func (r *Record) SetMark(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.st.mark = n
	if r.mem != nil {
		r.mem.store(&r.st)
	}
}

// Mark returns the number that was set last.
func (r *Record) Mark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.st.mark
}

// Close releases the memory. Output that was not taken is lost to this process, and output that is read from now on is not
// stored. A concurrent read must have ended before the memory is unmapped.
func (r *Record) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem = nil
}
