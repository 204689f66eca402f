package orchestrate

import (
	"context"
	"slices"
	"sync"
)

// Gate lets calls run first come first served: shared ones beside each other, exclusive ones alone, members of a group
// one after the other. The zero value is open.
type Gate struct {
	mu    sync.Mutex
	queue []*Ticket // everybody who waits or runs, in the order of Enter
}

// Ticket is a place in the gate's queue.
type Ticket struct {
	gate     *Gate
	shared   bool
	group    string
	admitted chan struct{} // closed when it may run
	open     bool          // under the gate's lock: admitted is closed
}

// Enter takes the next place. It does not wait.
func (g *Gate) Enter(shared bool, group string) *Ticket {
	t := &Ticket{gate: g, shared: shared, group: group, admitted: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, t)
	g.admitLocked()
	return t
}

// Wait returns when the call may run, or with the cause of ctx's end.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.admitted:
		return nil
	default:
	}
	select {
	case <-t.admitted:
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

// admitLocked opens every ticket that no earlier one stands in the way of. A turn has few calls at once, so looking at
// all pairs is cheaper than anything clever.
func (g *Gate) admitLocked() {
	for i, t := range g.queue {
		if !t.open && !slices.ContainsFunc(g.queue[:i], t.waitsFor) {
			t.open = true
			close(t.admitted)
		}
	}
}

func (t *Ticket) waitsFor(earlier *Ticket) bool {
	return !t.shared || !earlier.shared || t.group != "" && t.group == earlier.group
}
