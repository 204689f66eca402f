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
var ErrForeign = errors.New("record: the memory holds no record that this program understands")

const (
	// landing is the most that one read takes.
	landing = 32 << 10
	// firstRead is the size of the first one: most programs write little, and memory that nobody touches costs nothing.
	firstRead = 4 << 10
	// unread is what the landing place is filled with before a read. A read that was not noted is found by what differs, so
	// only a piece that ends in this byte would be taken for shorter; no text does, since UTF-8 has no such byte.
	unread = 0xFF
	// maxName bounds the name under which output is taken.
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
	chunk  int    // the next read
	filled int    // so much of the landing place was filled with unread
	used   int    // and so much of that the last read has overwritten
	closed []byte // where reads go after Close
}

// Size returns the size of the memory for a record with the given capacity.
func Size(capacity int) int { return newLayout(capacity).size }

// New creates a record that keeps the first and the last half of capacity bytes. mem must have at least [Size] zero bytes;
// nil: memory that ends with this process. It must stay mapped until [Record.Close].
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
	if n := r.st.reading; n > 0 { // a read was under way
		r.commit(len(bytes.TrimRight(m.landing()[:n], "\xFF")))
	}
	return r, nil
}

// untake puts what was taken in front of what came since.
func (r *Record) untake() {
	next := r.st
	next.bank = r.st.free()
	next.held = held{}
	for _, from := range []part{{r.st.pending, r.st.taken}, {r.st.bank, r.st.held}} {
		o := r.mem.output(from)
		r.mem.write(&next, o.Head)
		next.held.omitted += o.Omitted
		r.mem.writeTail(&next, o.Tail)
	}
	next.pending, next.taken, next.name = none, held{}, ""
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

// space returns where the next read goes. After Close that is nowhere that lasts.
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
	for n := 1; n < len(b); n *= 2 { // copying is many times faster than storing bytes
		copy(b[n:], b[:n])
	}
}

// commit notes what a read has brought.
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
	o := r.mem.output(part{r.st.bank, r.st.held})
	next := r.st
	next.pending, next.taken, next.name = r.st.bank, r.st.held, name
	next.bank, next.held = r.st.free(), held{}
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
	return r.mem.output(part{r.st.bank, r.st.held})
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
