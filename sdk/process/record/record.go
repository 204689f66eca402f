// Package record keeps the output of a program in memory that outlives the process which reads it: what was read and not
// yet given away is there again for the next one, each byte once, whenever the reader was killed.
//
// It owns: the bound (head and tail of what nobody has taken), what is dropped and how that is counted, the layout of the
// memory and its state after a sudden end. It must not know: where the memory comes from, what reads the program's output,
// who takes it.
//
// Start with [New] for a program that was started, and [Open] for one that was taken over.
package record

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrForeign is returned by Open for memory that holds no record, or one of another layout.
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

// Output is what a program wrote: Omitted bytes are missing between Head and Tail.
type Output struct {
	Head, Tail []byte
	Omitted    int64
}

// Total is the number of bytes that the program wrote.
func (o Output) Total() int64 { return int64(len(o.Head)+len(o.Tail)) + o.Omitted }

// Record is output that nobody has taken yet. One goroutine may read into it while others take.
type Record struct {
	mu     sync.Mutex
	mem    *memory // nil after Close
	st     state
	chunk  int    // the next read
	filled int    // so much of the landing place was filled with unread
	used   int    // and so much of that the last read has overwritten
	closed []byte // where reads go after Close
}

// Size is the memory that a record of so many bytes needs.
func Size(capacity int) int { return newLayout(capacity).size }

// New begins a record that keeps the first and the last half of capacity bytes. mem has at least [Size] zero bytes; nil
// means memory that ends with this process. It must stay mapped until [Record.Close].
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

// Open goes on with the record of an earlier process. What that one had taken under a name that answered denies is there
// again: whoever it was for never saw it.
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

// ReadPiece reads one piece of output into the record and returns it; the bytes are valid until the next ReadPiece. It is
// made for one goroutine, and for sources that write nothing
// behind what they return: what they read straight into the record is not lost when the process is killed before the next
// instruction.
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

// Take returns all that nobody has taken. leave says how many bytes at the end stay for the next one, the beginning of a
// character for example; nil: none. Until the next Take the record remembers what this one gave, and to whom, by name, of
// which 256 bytes count.
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

// Taker is the name under which output was taken last; empty: it was not, or what was taken is here again.
func (r *Record) Taker() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.st.name
}

// Peek returns what Take would, and takes nothing.
func (r *Record) Peek() Output {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil {
		return Output{}
	}
	return r.mem.output(part{r.st.bank, r.st.held})
}

// Total is how many bytes the program has written so far, all earlier readers' included.
func (r *Record) Total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.st.total
}

// SetMark keeps a number of the caller's beside the output. It is 0 in the beginning.
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

// Close lets go of the memory. What was not taken is gone for this process, and what is read from now on is not kept. A
// read that is under way must have ended before the memory is unmapped.
func (r *Record) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem = nil
}
