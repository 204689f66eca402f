package orchestrate

import (
	"context"
	"slices"
	"sync"
)

// Gate lets calls run first come first served: shared ones beside each other, exclusive ones alone, members of a group
// one after the other. Which sessions a call works on is known only once it was assessed, so there is a second door behind
// that: calls of one session pass it one after the other, in the order of Enter. Calls that run beside each other pass it in
// that order, too, so that they begin as the model asked. The zero value is open.
type Gate struct {
	mu    sync.Mutex
	queue []*Ticket // everybody who waits or runs, in the order of Enter
}

// Ticket is a place in the gate's queue.
type Ticket struct {
	gate     *Gate
	shared   bool
	group    string
	admitted chan struct{} // closed when it may be judged
	cleared  chan struct{} // closed when it may work on its sessions

	// Under the gate's lock: which of the channels are closed, and what was claimed.
	open, clear bool
	claimed     bool
	begun       bool
	sessions    []string
}

// Enter takes the next place. It does not wait.
func (g *Gate) Enter(shared bool, group string) *Ticket {
	t := &Ticket{gate: g, shared: shared, group: group, admitted: make(chan struct{}), cleared: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, t)
	g.admitLocked()
	return t
}

// Wait returns when the call may be judged, or with the cause of ctx's end.
func (t *Ticket) Wait(ctx context.Context) error { return await(ctx, t.admitted) }

// Claim says which sessions the call works on, and returns when it may: those before it have said which are theirs, and
// the ones of the same session have left; and those before it that can begin have begun. It is called once, after Wait.
func (t *Ticket) Claim(ctx context.Context, sessions ...string) error {
	t.gate.mu.Lock()
	t.claimed, t.sessions = true, sessions
	t.gate.admitLocked()
	t.gate.mu.Unlock()
	return await(ctx, t.cleared)
}

// Begun says that the call is under way for everybody to see: those behind it may follow.
func (t *Ticket) Begun() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.begun = true
	t.gate.admitLocked()
}

func await(ctx context.Context, door <-chan struct{}) error {
	select {
	case <-door:
		return nil
	default:
	}
	select {
	case <-door:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave gives the place back, whether the call ran or not. Idempotent.
func (t *Ticket) Leave() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, t); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		g.admitLocked()
	}
}

// admitLocked opens both doors for every ticket that no earlier one stands in the way of. A turn has few calls at once, so
// looking at all pairs is cheaper than anything clever.
func (g *Gate) admitLocked() {
	for i, t := range g.queue {
		if !t.open && !slices.ContainsFunc(g.queue[:i], t.waitsFor) {
			t.open = true
			close(t.admitted)
		}
		if t.claimed && !t.clear && !slices.ContainsFunc(g.queue[:i], func(e *Ticket) bool { return t.follows(e) || e.begins() }) {
			t.clear = true
			close(t.cleared)
		}
	}
}

func (t *Ticket) waitsFor(earlier *Ticket) bool {
	return !t.shared || !earlier.shared || t.group != "" && t.group == earlier.group
}

// follows: a call that has not claimed yet may turn out to be of the same session.
func (t *Ticket) follows(earlier *Ticket) bool {
	return len(t.sessions) > 0 && (!earlier.claimed || slices.ContainsFunc(t.sessions, func(s string) bool {
		return slices.Contains(earlier.sessions, s)
	}))
}

// begins: it will begin without waiting for anybody's end, but has not yet.
func (t *Ticket) begins() bool { return t.open && !t.begun && (!t.claimed || t.clear) }
