package record

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"
)

// The memory: a page with the state, twice, and a counter that says which of both counts; the landing place; three banks
// of output. One bank is written to, one holds what was taken last, one is free to build the next in. Nothing that the
// state in force refers to is ever overwritten, and states change by one store of the counter.
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
	// Room beside what is kept: a piece is written before the oldest bytes are let go.
	l.ring = l.tailCap + landing
	l.bank = (l.headCap + l.ring + page - 1) / page * page
	l.size = page + landing + banks*l.bank
	return l
}

// held is what a bank holds.
type held struct {
	head, start, tail int // the tail is a ring; start is where its oldest byte is
	omitted           int64
}

// cut takes n bytes off the end.
func (h *held) cut(n int) {
	if h.tail > 0 {
		h.tail -= n
	} else {
		h.head -= n
	}
}

// part is a bank with what it holds.
type part struct {
	bank int
	held held
}

// state is all that changes.
type state struct {
	total, mark int64
	reading     int // bytes of the landing place that a read may have filled
	bank        int
	held        held
	pending     int // the bank of what was taken last; none
	taken       held
	name        string
}

// free is the bank that is neither.
func (s *state) free() int {
	for i := range banks {
		if i != s.bank && i != s.pending {
			return i
		}
	}
	panic("record: no free bank")
}

// memory is a layout over bytes.
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

// begin makes the memory a record's. The magic number comes last.
func (m *memory) begin() {
	binary.LittleEndian.PutUint64(m.b[atCapacity:], uint64(m.capacity))
	binary.LittleEndian.PutUint64(m.b[atMagic:], magic)
}

// openMemory checks all that it reads: it was written by another build, perhaps.
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
		return nil, state{}, ErrForeign // its writer died before the first state
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

// output copies what a bank holds.
func (m *memory) output(p part) Output {
	ring := m.tail(p.bank)
	o := Output{Head: slices.Clone(m.head(p.bank)[:p.held.head]), Omitted: p.held.omitted}
	if end := p.held.start + p.held.tail; end <= len(ring) {
		o.Tail = slices.Clone(ring[p.held.start:end])
	} else {
		o.Tail = slices.Concat(ring[p.held.start:], ring[:end-len(ring)])
	}
	return o
}

// write appends to the bank that st names. What the state in force refers to stays as it is.
func (m *memory) write(st *state, p []byte) {
	h := &st.held
	if room := m.headCap - h.head; room > 0 && h.omitted == 0 && h.tail == 0 {
		n := copy(m.head(st.bank)[h.head:], p)
		h.head += n
		p = p[n:]
	}
	m.writeTail(st, p)
}

func (m *memory) writeTail(st *state, p []byte) {
	h, ring := &st.held, m.tail(st.bank)
	// In pieces: the room beside what is kept takes one.
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

// store puts a state in force.
func (m *memory) store(st *state) {
	next := atomic.LoadUint64(m.counter) + 1
	b := m.b[atStates+stateSize*int(next&1):][:stateSize]
	for i, v := range [...]int64{
		st.total, st.mark, int64(st.reading), int64(st.bank), int64(st.held.head), int64(st.held.start), int64(st.held.tail),
		st.held.omitted, int64(st.pending), int64(st.taken.head), int64(st.taken.start), int64(st.taken.tail), st.taken.omitted,
		int64(len(st.name)),
	} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
	copy(b[8*14:], st.name)
	atomic.StoreUint64(m.counter, next)
}

// load reads the state in force; false when it can't be one.
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
	bank := func(i int) held {
		h := held{head: within(i, 0, m.headCap), start: within(i+1, 0, m.ring-1), tail: within(i+2, 0, m.tailCap), omitted: number(i + 3)}
		ok = ok && h.omitted >= 0
		return h
	}
	st = state{total: number(0), mark: number(1), reading: within(2, 0, landing), bank: within(3, 0, banks-1), held: bank(4)}
	st.pending, st.taken = within(8, none, banks-1), bank(9)
	st.name = string(b[8*14:][:within(13, 0, maxName)])
	return st, ok && st.total >= 0 && st.pending != st.bank
}
