package guardian

// Limits of denials in a turn. An agent that continues despite them is interrupted. Compatible with codex.
const (
	maxInARow = 3
	maxInAll  = 10
	countedOf = 50 // number of recent reviews that are considered
)

// breaker counts the denials of a turn.
type breaker struct {
	inARow  int
	last    []bool // whether each recent review denied its call
	tripped bool
}

// note counts a review with a valid answer. It returns true once, when the turn should be interrupted.
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
