package record

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"
)

// The memory consists of a page with two copies of the state and a counter that selects the current one, the landing area for
// reads, and three banks of output: one that is written to, one with the output that was taken last, and a free one in which
// the next is built. Data that the current state refers to is never overwritten, and the state changes with a single store of
// the counter. The record is therefore consistent whenever the process is killed.
const (
	page  = 4 << 10
	magic = 0x31_64_63_65_72_74_6e_67 // "gntrecd1"
	banks = 3
	none  = -1

	atMagic    = 0
	atCapacity = 8
	atCounter  = 16
	atStates   = 64
	stateSize  = 512
)

type layout struct {
	capacity, headCap, tailCap int
	ring, bank, size           int
}

func newLayout(capacity int) layout {
	capacity = max(capacity, 0)
	l := layout{capacity: capacity, headCap: capacity / 2, tailCap: capacity - capacity/2}
	// The ring has room for another piece, which is written before the oldest bytes are dropped.
	l.ring = l.tailCap + landing
	l.bank = (l.headCap + l.ring + page - 1) / page * page
	l.size = page + landing + banks*l.bank
	return l
}

// extent describes the output in a bank.
type extent struct {
	head, start, tail int // the tail is a ring; start is the position of its oldest byte
	omitted           int64
}

// cut removes n bytes at the end.
func (h *extent) cut(n int) {
	if h.tail > 0 {
		h.tail -= n
	} else {
		h.head -= n
	}
}

// part is the output in a bank.
type part struct {
	bank   int
	extent extent
}

// state is the state of a record.
type state struct {
	total, mark int64
	reading     int // bytes of the landing area that a read may have written
	bank        int
	extent      extent
	pending     int // the bank of the output that was taken last, or none
	taken       extent
	name        string
}

// free returns the bank that is not in use.
func (s *state) free() int {
	for i := range banks {
		if i != s.bank && i != s.pending {
			return i
		}
	}
	panic("record: no free bank")
}

// memory accesses a record in b.
type memory struct {
	layout
	b       []byte
	counter *uint64
}

func newMemory(b []byte, l layout) (*memory, error) {
	if len(b) < l.size || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		return nil, ErrForeign
	}
	return &memory{layout: l, b: b, counter: (*uint64)(unsafe.Pointer(&b[atCounter]))}, nil
}

// begin initializes the memory. It writes the magic number last.
func (m *memory) begin() {
	binary.LittleEndian.PutUint64(m.b[atCapacity:], uint64(m.capacity))
	binary.LittleEndian.PutUint64(m.b[atMagic:], magic)
}

// openMemory validates everything that it reads, because it may have been written by another build.
func openMemory(b []byte) (*memory, state, error) {
	if len(b) < page || binary.LittleEndian.Uint64(b[atMagic:]) != magic {
		return nil, state{}, ErrForeign
	}
	capacity := binary.LittleEndian.Uint64(b[atCapacity:])
	if capacity > uint64(len(b)) {
		return nil, state{}, ErrForeign
	}
	m, err := newMemory(b, newLayout(int(capacity)))
	if err != nil {
		return nil, state{}, err
	}
	if atomic.LoadUint64(m.counter) == 0 {
		return nil, state{}, ErrForeign // its writer ended before it stored a state
	}
	st, ok := m.load()
	if !ok {
		return nil, state{}, ErrForeign
	}
	return m, st, nil
}

func (m *memory) landing() []byte { return m.b[page : page+landing] }

func (m *memory) head(bank int) []byte {
	at := page + landing + bank*m.bank
	return m.b[at : at+m.headCap]
}

func (m *memory) tail(bank int) []byte {
	at := page + landing + bank*m.bank + m.headCap
	return m.b[at : at+m.ring]
}

// output copies the output in a bank.
func (m *memory) output(p part) Output {
	ring := m.tail(p.bank)
	o := Output{Head: slices.Clone(m.head(p.bank)[:p.extent.head]), Omitted: p.extent.omitted}
	if end := p.extent.start + p.extent.tail; end <= len(ring) {
		o.Tail = slices.Clone(ring[p.extent.start:end])
	} else {
		o.Tail = slices.Concat(ring[p.extent.start:], ring[:end-len(ring)])
	}
	return o
}

// write appends to the bank of st. It doesn't change data that the current state refers to.
func (m *memory) write(st *state, p []byte) {
	h := &st.extent
	if room := m.headCap - h.head; room > 0 && h.omitted == 0 && h.tail == 0 {
		n := copy(m.head(st.bank)[h.head:], p)
		h.head += n
		p = p[n:]
	}
	m.writeTail(st, p)
}

func (m *memory) writeTail(st *state, p []byte) {
	h, ring := &st.extent, m.tail(st.bank)
	// In pieces, because the ring has room for only one.
	for len(p) > 0 {
		piece := p[:min(len(p), landing)]
		p = p[len(piece):]
		at := (h.start + h.tail) % len(ring)
		n := copy(ring[at:], piece)
		copy(ring, piece[n:])
		h.tail += len(piece)
		if over := h.tail - m.tailCap; over > 0 {
			h.start = (h.start + over) % len(ring)
			h.tail = m.tailCap
			h.omitted += int64(over)
		}
	}
}

// store makes st the current state.
func (m *memory) store(st *state) {
	next := atomic.LoadUint64(m.counter) + 1
	b := m.b[atStates+stateSize*int(next&1):][:stateSize]
	for i, v := range [...]int64{
		st.total, st.mark, int64(st.reading), int64(st.bank), int64(st.extent.head), int64(st.extent.start), int64(st.extent.tail),
		st.extent.omitted, int64(st.pending), int64(st.taken.head), int64(st.taken.start), int64(st.taken.tail), st.taken.omitted,
		int64(len(st.name)),
	} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
	copy(b[8*14:], st.name)
	atomic.StoreUint64(m.counter, next)
}

// load reads the current state. It returns false if that is invalid.
func (m *memory) load() (st state, ok bool) {
	b := m.b[atStates+stateSize*int(atomic.LoadUint64(m.counter)&1):][:stateSize]
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	ok = true
	within := func(i int, least, most int) int {
		v := number(i)
		if v < int64(least) || v > int64(most) {
			ok = false
			return least
		}
		return int(v)
	}
	bank := func(i int) extent {
		h := extent{head: within(i, 0, m.headCap), start: within(i+1, 0, m.ring-1), tail: within(i+2, 0, m.tailCap), omitted: number(i + 3)}
		ok = ok && h.omitted >= 0
		return h
	}
	st = state{total: number(0), mark: number(1), reading: within(2, 0, landing), bank: within(3, 0, banks-1), extent: bank(4)}
	st.pending, st.taken = within(8, none, banks-1), bank(9)
	st.name = string(b[8*14:][:within(13, 0, maxName)])
	return st, ok && st.total >= 0 && st.pending != st.bank
}
