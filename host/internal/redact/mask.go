package redact

import "slices"

// shownPrefix is the number of bytes of a value that may be shown at the end of a piece, before the rest is known. A terminal echoes what is
// typed byte by byte, and a person must see it: almost any letter begins some value.
const shownPrefix = 3

// Mask replaces known values in the output of a terminal by as many asterisks, so that no column moves. Unlike a [Stream], it does not look
// for patterns, whose end is known late, and it shows up to three bytes that may begin a value instead of holding them back. It is not safe
// for concurrent use; nil changes nothing.
type Mask struct {
	r     *Redactor
	m     *automaton
	state int32
	held  []byte // begins a value, or continues one whose first bytes were shown
}

// Mask returns a mask for the output of a terminal.
func (r *Redactor) Mask() *Mask {
	if r == nil {
		return nil
	}
	return &Mask{r: r}
}

// Write adds a piece and returns the next bytes to show, which may be none. All that were returned have together the length of all pieces,
// less [Mask.Held].
func (t *Mask) Write(piece []byte) []byte {
	if t == nil {
		return piece
	}
	m := t.r.values.Load()
	if m == nil {
		return piece
	}
	buf, i := slices.Concat(t.held, piece), len(t.held)
	if m != t.m { // values were added: process the held bytes again
		t.m, t.state, i = m, 0, 0
	}
	masked := 0 // end of the last value
	for ; i < len(buf); i++ {
		t.state = m.next[int(t.state)*m.width+int(m.class[buf[i]])]
		n := int(m.length[t.state])
		if n == 0 {
			continue
		}
		for j := max(masked, i+1-n, 0); j <= i; j++ {
			buf[j] = '*'
		}
		masked = i + 1
	}
	limit := len(buf)
	if depth := int(m.depth[t.state]); depth > shownPrefix {
		limit = max(limit-depth, masked)
	}
	t.held = buf[limit:]
	return buf[:limit:limit]
}

// Held returns the number of bytes that are held back.
func (t *Mask) Held() int {
	if t == nil {
		return 0
	}
	return len(t.held)
}

// Reset forgets the bytes that are held back: what comes next does not continue them.
func (t *Mask) Reset() {
	if t != nil {
		t.state, t.held = 0, nil
	}
}
