package launch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Limits of what one process of a plugin leaves to the next.
const (
	// DefaultAdoptTime is how long a kept session waits for a process of its plugin to adopt it. A plugin that has crashed is
	// restarted within seconds, and an unwanted session must not remain as long as its thread.
	DefaultAdoptTime = time.Minute
	// MaxNote and MaxMemory limit what the host keeps for a plugin with each session.
	MaxNote   = 64 << 10
	MaxMemory = 8 << 20
)

// Keep is what the host keeps with a session for the next process of its plugin.
type Keep struct {
	Note   []byte // for the plugin alone to understand; at most MaxNote bytes
	Memory int    // bytes of shared memory, initially zero; at most MaxMemory, 0: none
}

// Kept returns the sessions of a plugin that can be adopted, with those that have ended meanwhile and whose last output was not read.
// thread selects those of one thread; empty: all.
func (l *Launcher) Kept(plugin, thread string) []*Process {
	return l.find(func(p *Process) bool {
		return p.spec.Keep != nil && !p.status.released && p.running() && p.spec.Owner.Plugin == plugin &&
			(thread == "" || p.spec.Owner.Thread == thread)
	})
}

// HolderEnded says that a process of a plugin has ended: its kept sessions wait to be adopted, the others are ended.
func (l *Launcher) HolderEnded(plugin string, holder uint64) {
	kept := l.Kept(plugin, "")
	for _, p := range l.find(func(p *Process) bool { return p.spec.Owner.Plugin == plugin && p.running() }) {
		switch {
		case p.hold.by() != holder:
		case slices.Contains(kept, p):
			p.hold.release(holder, l.cfg.AdoptTime, func() { l.abandon(p, l.cfg.OnAbandon) })
		default:
			l.abandon(p, nil)
		}
	}
}

// abandon ends a session that no process of its plugin has. It calls tell first, unless that is nil.
func (l *Launcher) abandon(p *Process, tell func(*Process)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return // Close ends it
	}
	l.work.Go(func() { // Close waits for it; KillTree has a time limit of its own
		if tell != nil {
			tell(p)
		}
		if err := p.KillTree(context.Background()); err != nil {
			l.cfg.Logger.Warn("an abandoned session was not ended", "id", p.id, "error", err)
		}
		l.forget(p)
	})
}

// Adopt passes the session to another process of its plugin, once the process that has it has ended. ErrEnded: it was not adopted in
// time, or its thread has ended.
func (p *Process) Adopt(ctx context.Context, holder uint64) error { return p.hold.adopt(ctx, holder) }

// IsKept reports whether another process of its plugin may adopt the process.
func (p *Process) IsKept() bool { return p.spec.Keep != nil }

// Note is what the plugin has noted about the process.
func (p *Process) Note() []byte {
	if p.spec.Keep == nil {
		return nil
	}
	return p.spec.Keep.Note
}

// Cwd is the folder in which the process was started.
func (p *Process) Cwd() string { return p.spec.Cwd }

// OnTerminal reports whether the process has a terminal.
func (p *Process) OnTerminal() bool { return p.spec.Terminal != nil }

// Started is when the process was started.
func (p *Process) Started() time.Time { return p.started }

// Ended returns how the process ended, if it has.
func (p *Process) Ended() (Exit, bool) {
	select {
	case <-p.exited:
		return p.exit, true
	default:
		return Exit{}, false
	}
}

// hold says which process of its plugin has a session. Its methods may be called concurrently.
type hold struct {
	mu     sync.Mutex
	holder uint64        // the number of the plugin's process
	free   chan struct{} // closed when that process has ended
	timer  *time.Timer   // ends the time in which it can be adopted; nil: it is not running
}

func newHold(holder uint64) *hold { return &hold{holder: holder, free: make(chan struct{})} }

func (h *hold) by() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holder
}

// release allows another process to adopt a session that holder has, and calls late if none does in time.
func (h *hold) release(holder uint64, wait time.Duration, late func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holder != holder || !h.freeLocked() {
		return
	}
	h.timer = time.AfterFunc(wait, func() {
		h.mu.Lock()
		expired := h.timer != nil
		h.timer = nil
		h.mu.Unlock()
		if expired {
			late()
		}
	})
}

// freeLocked closes free. It returns false if it was closed already.
func (h *hold) freeLocked() bool {
	select {
	case <-h.free:
		return false
	default:
		close(h.free)
		return true
	}
}

// adopt waits until the process that has the session has ended, and gives it to another.
func (h *hold) adopt(ctx context.Context, holder uint64) error {
	for {
		h.mu.Lock()
		if h.holder == holder {
			h.mu.Unlock()
			return nil
		}
		free := h.free
		select {
		case <-free:
			defer h.mu.Unlock()
			if h.timer == nil { // its time is up
				return ErrEnded
			}
			h.timer.Stop()
			h.holder, h.free, h.timer = holder, make(chan struct{}), nil
			return nil
		default:
		}
		h.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end ends the time in which the session can be adopted.
func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.freeLocked()
}
