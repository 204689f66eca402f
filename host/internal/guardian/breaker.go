package guardian

// Bounds of the denials in a turn: an agent that goes on against them is stopped; codex-compatible.
const (
	maxInARow = 3
	maxInAll  = 10
	countedOf = 50 // the last reviews
)

// breaker counts the denials of a turn.
type breaker struct {
	inARow  int
	last    []bool // of the last reviews: denied
	tripped bool
}

// note counts one review that came to an answer, and tells whether the turn is to be stopped: once.
func (b *breaker) note(denied bool) (trip bool) {
	b.last = append(b.last, denied)
	if len(b.last) > countedOf {
		b.last = b.last[1:]
	}
	b.inARow++
	if !denied {
		b.inARow = 0
	}
	n := 0
	for _, d := range b.last {
		if d {
			n++
		}
	}
	if b.tripped || b.inARow < maxInARow && n < maxInAll {
		return false
	}
	b.tripped = true
	return true
}
