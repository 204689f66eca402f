package redact

// automaton finds any of several texts in one pass (Aho–Corasick). Unlike in libraries, every state has the number of bytes that may
// be the beginning of a text, which a stream has to hold back.
type automaton struct {
	class  [256]uint8 // class of each byte; 0: it occurs in no text
	width  int        // number of classes
	next   []int32    // next state, by state and class
	depth  []uint16   // by state: number of bytes that may be the beginning of a text
	length []uint16   // by state: length of the longest text that ends here; 0: none
}

func newAutomaton(texts []string) *automaton {
	m := &automaton{width: 1}
	for _, t := range texts {
		for i := range len(t) {
			if m.class[t[i]] == 0 && m.width < 256 { // a text can't have all 256
				m.class[t[i]] = uint8(m.width)
				m.width++
			}
		}
	}
	state := func(depth int) int32 {
		m.next = append(m.next, make([]int32, m.width)...)
		m.depth = append(m.depth, uint16(depth))
		m.length = append(m.length, 0)
		return int32(len(m.depth) - 1)
	}
	state(0)
	for _, t := range texts {
		at := int32(0)
		for i := range len(t) {
			edge := int(at)*m.width + int(m.class[t[i]])
			if m.next[edge] == 0 {
				fresh := state(i + 1) // moves next
				m.next[edge] = fresh
			}
			at = m.next[edge]
		}
		m.length[at] = uint16(len(t))
	}
	// Where a text does not continue, the state changes to the longest beginning of another text that has just been read.
	fail := make([]int32, len(m.depth))
	var queue []int32
	for c := range m.width {
		if to := m.next[c]; to != 0 {
			queue = append(queue, to)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		m.length[at] = max(m.length[at], m.length[fail[at]])
		for c := range m.width {
			edge := int(at)*m.width + c
			other := m.next[int(fail[at])*m.width+c]
			if to := m.next[edge]; to != 0 {
				fail[to] = other
				queue = append(queue, to)
			} else {
				m.next[edge] = other
			}
		}
	}
	return m
}

// valueStream replaces the texts of an automaton in a stream.
type valueStream struct {
	m      *automaton
	state  int32
	held   []byte // may be the beginning of a text, or of a secret whose end is not known yet
	from   int    // held[from:to] belongs to a secret; it is empty if from == to
	to     int
	marked bool // the mark for it was written
}

func (s *valueStream) write(out []byte, m *automaton, piece []byte) []byte {
	if s.m != m { // values were added: process the held text again
		was := *s
		*s = valueStream{m: m}
		if was.from != was.to {
			out = was.end(out)
		} else if len(was.held) > 0 {
			out = s.write(out, m, was.held)
		}
	}
	buf, i := piece, 0
	if len(s.held) > 0 {
		i = len(s.held)
		s.held = append(s.held, piece...)
		buf = s.held
	}
	done, state := 0, s.state
	next, class, width, length := m.next, &m.class, int32(m.width), m.length
	for ; i < len(buf); i++ {
		state = next[state*width+int32(class[buf[i]])]
		if n := int(length[state]); n > 0 {
			out, done = s.found(out, buf, done, i+1-n, i+1)
		}
	}
	s.state = state
	return s.show(out, buf, done, len(buf)-int(m.depth[state]))
}

// found records that buf[from:to] is a text. Overlapping texts are one secret.
func (s *valueStream) found(out, buf []byte, done, from, to int) ([]byte, int) {
	from = max(from, done)
	if s.from < s.to && from >= s.to {
		out, done = s.mark(out, buf, done)
		s.from = s.to
	}
	if s.from == s.to {
		s.from, s.marked = from, false
	}
	s.from, s.to = min(s.from, from), to
	return out, done
}

// mark appends the text before the secret and the placeholder.
func (s *valueStream) mark(out, buf []byte, done int) ([]byte, int) {
	out = append(out, buf[done:max(done, s.from)]...)
	if !s.marked {
		out, s.marked = append(out, Placeholder...), true
	}
	return out, s.to
}

// show appends buf up to a limit and holds back the rest.
func (s *valueStream) show(out, buf []byte, done, limit int) []byte {
	if s.from < s.to && limit > s.from {
		out, done = s.mark(out, buf, done)
		if limit >= s.to {
			s.from, s.to = 0, 0
		} else { // the secret may continue
			done = limit
			s.from = limit
		}
	}
	limit = max(limit, done)
	out = append(out, buf[done:limit]...)
	s.from, s.to = max(s.from-limit, 0), max(s.to-limit, 0)
	s.held = append(s.held[:0], buf[limit:]...)
	return out
}

func (s *valueStream) end(out []byte) []byte {
	s.state = 0
	return s.show(out, s.held, 0, len(s.held))
}
