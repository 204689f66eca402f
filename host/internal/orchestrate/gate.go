package orchestrate

import (
	"context"
	"slices"
	"sync"
)

// Gate admits calls in order: shared calls run concurrently, exclusive ones alone, and members of a group one at a time. The sessions
// that a call works on are known only after its assessment, so calls are admitted twice: Wait admits them to the assessment, and Claim
// to their sessions, where calls of one session run one at a time, in the order of Enter. Concurrent calls pass Claim in that order as
// well, so that they begin in the order in which the model made them. The zero value is ready to use.
type Gate struct {
	mu    sync.Mutex
	queue []*Ticket // of calls that wait or run, in the order of Enter
}

// Ticket is a place in the gate's queue.
type Ticket struct {
	gate     *Gate
	shared   bool
	group    string
	admitted chan struct{} // closed when the call may be assessed
	cleared  chan struct{} // closed when it may work on its sessions

	// Guarded by the gate's lock.
	open, clear bool // the channels are closed
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

// Wait returns when the call may be assessed, or with the cause of ctx's end.
func (t *Ticket) Wait(ctx context.Context) error { return await(ctx, t.admitted) }

// Claim declares which sessions the call works on, and returns when it may: all earlier calls have declared theirs, those of the same
// sessions have left, and those that can begin have begun. It is called once, after Wait.
func (t *Ticket) Claim(ctx context.Context, sessions ...string) error {
	t.gate.mu.Lock()
	t.claimed, t.sessions = true, sessions
	t.gate.admitLocked()
	t.gate.mu.Unlock()
	return await(ctx, t.cleared)
}

// Begun says that the start of the call is published, so that later calls may begin.
func (t *Ticket) Begun() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.begun = true
	t.gate.admitLocked()
}

// await waits for ready, which has precedence over ctx.
func await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	default:
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave gives up the place, whether or not the call ran. Idempotent.
func (t *Ticket) Leave() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, t); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		g.admitLocked()
	}
}

// admitLocked admits every ticket that does not have to wait for an earlier one. A turn has few calls at a time, so comparing all pairs
// is fast enough.
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

// waitsFor reports whether t is admitted only after an earlier ticket has left.
func (t *Ticket) waitsFor(earlier *Ticket) bool {
	return !t.shared || !earlier.shared || t.group != "" && t.group == earlier.group
}

// follows reports whether t may work on its sessions only after an earlier ticket has left, or has claimed other sessions.
func (t *Ticket) follows(earlier *Ticket) bool {
	return len(t.sessions) > 0 && (!earlier.claimed || slices.ContainsFunc(t.sessions, func(s string) bool {
		return slices.Contains(earlier.sessions, s)
	}))
}

// begins reports whether the call will begin without waiting for the end of another, but has not yet.
func (t *Ticket) begins() bool { return t.open && !t.begun && (!t.claimed || t.clear) }
