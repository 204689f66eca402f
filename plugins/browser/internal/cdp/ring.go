package cdp

import "time"

// Kept is what is kept of an event: not its parameters, which may be large, and contain what pages must not tell.
type Kept struct {
	Time            time.Time
	Session, Method string
	Size            int // of the parameters, in bytes
}

// ring is the latest events.
type ring struct {
	list []Kept
	next int
}

func (r *ring) add(k Kept) {
	if len(r.list) < maxKept {
		r.list = append(r.list, k)
		return
	}
	r.list[r.next] = k
	r.next = (r.next + 1) % maxKept
}

// all returns the events, the oldest first.
func (r *ring) all() []Kept {
	return append(append([]Kept{}, r.list[r.next:]...), r.list[:r.next]...)
}
