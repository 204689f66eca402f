package hub

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
)

// idleThread is a thread that could be unloaded.
type idleThread struct {
	id        event.ThreadID
	since     time.Time
	ephemeral bool
}

// minIdle is how long a thread must have been idle to be unloaded because there are too many: its client may be about to follow it, or
// to come back.
const minIdle = time.Minute

// due selects the threads to unload now, and when the next one is due; zero: none is. idle are the threads that could be unloaded, of
// loaded ones in all.
func due(now time.Time, idle []idleThread, loaded int, timeout time.Duration, most int) (unload []event.ThreadID, next time.Time) {
	slices.SortFunc(idle, func(a, b idleThread) int { return a.since.Compare(b.since) })
	for _, t := range idle {
		at := t.since.Add(timeout)
		if loaded > most && !t.ephemeral { // an ephemeral thread would be lost
			at = t.since.Add(min(timeout, minIdle))
		}
		if !at.After(now) {
			unload = append(unload, t.id)
			loaded--
		} else {
			next = earliest(next, at)
		}
	}
	return unload, next
}

// unloadIdle unloads idle threads and closes hosts without threads, until the hub closes.
func (h *Hub) unloadIdle() {
	timer := time.NewTimer(h.cfg.IdleTimeout)
	defer timer.Stop()
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.wake:
		case <-timer.C:
		}
		threads, spaces, next := h.unused(time.Now())
		for _, l := range threads {
			h.work.Go(func() { h.unloadIfIdle(l) }) // ends when the thread has
		}
		for _, s := range spaces {
			h.work.Go(func() { // ends when the host has
				if err := s.host.Close(); err != nil {
					h.log.Warn("host not closed cleanly", "dir", s.workspace.Dir, "err", err)
				}
			})
		}
		wait := h.cfg.IdleTimeout
		if !next.IsZero() {
			wait = max(time.Until(next), 0)
		}
		timer.Reset(wait)
	}
}

// unused takes the threads and hosts that are to be closed now out of use, and returns when the next ones are due.
func (h *Hub) unused(now time.Time) (threads []*local, spaces []*space, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closing {
		return nil, nil, next
	}
	var idle []idleThread
	for id, l := range h.mu.threads {
		if l.st.unloading != nil || l.st.uses > 0 {
			continue
		}
		since, ok := h.monitor.idleSince(id)
		if ok {
			idle = append(idle, idleThread{id, latest(since, l.st.left), l.ephemeral()})
		}
	}
	ids, next := due(now, idle, len(h.mu.threads), h.cfg.IdleTimeout, h.cfg.MaxIdle)
	for _, id := range ids {
		l := h.mu.threads[id]
		l.st.unloading = make(chan struct{})
		threads = append(threads, l)
	}
	for key, s := range h.mu.spaces {
		if s.uses > 0 {
			continue
		}
		if at := s.idle.Add(h.cfg.IdleTimeout); at.After(now) {
			next = earliest(next, at)
			continue
		}
		delete(h.mu.spaces, key)
		spaces = append(spaces, s)
	}
	return threads, spaces, next
}

// unloadIfIdle unloads a thread unless a turn has started in the meantime, for example by mail, or its agents are at work.
func (h *Hub) unloadIfIdle(l *local) {
	if err := l.thread.CheckIdle(context.WithoutCancel(h.life)); err != nil || host.Continues(l.space.host, l.thread.ID()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l.st.unloading != nil {
			close(l.st.unloading)
			l.st.unloading = nil
		}
		return
	}
	h.log.Debug("unloading an idle thread", "thread", l.thread.ID())
	l.space.host.CloseThread(l.thread.ID(), errClosed)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier time; a zero time does not count.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
