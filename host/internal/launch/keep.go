package launch

import (
	"context"
	"slices"
	"time"
)

// Bounds of what goes over from one process of a plugin to the next.
const (
	// DefaultAdoptTime is how long a kept session waits for a process of its plugin that adopts it. One that crashed is
	// started again within seconds; what nobody wants must not stay for as long as its thread.
	DefaultAdoptTime = time.Minute
	// MaxNote and MaxMemory bound what a plugin has kept for it with each session.
	MaxNote   = 64 << 10
	MaxMemory = 8 << 20
)

// Memory names the descriptor of memory that is kept with a session.
const Memory = "memory"

// Keep is what a session needs for going over to the next process of its plugin.
type Keep struct {
	Note   []byte // the plugin's own words; at most MaxNote
	Memory int    // bytes, zero at first, that its processes can map; at most MaxMemory, 0: none
}

// holding is who reads a session; guarded by the mutex of its process.
type holding struct {
	holder uint64        // the number of the plugin's process
	free   chan struct{} // closed when that has ended
	end    *time.Timer   // of the time to be adopted; nil: not running
}

// Kept returns the sessions of a plugin that can be adopted, those included that ended while nobody knew, with their last
// output. thread chooses those of one thread; empty: all.
func (l *Launcher) Kept(plugin, thread string) []*Process {
	return l.find(func(p *Process) bool {
		return p.spec.Keep != nil && !p.place.released && p.running() && p.spec.Owner.Plugin == plugin &&
			(thread == "" || p.spec.Owner.Thread == thread)
	})
}

// HolderEnded says that a process of a plugin has ended and reads nothing any more: of its sessions those that are kept
// wait to be adopted, the others are ended.
func (l *Launcher) HolderEnded(plugin string, holder uint64) {
	kept := l.Kept(plugin, "")
	for _, p := range l.find(func(p *Process) bool { return p.spec.Owner.Plugin == plugin && p.running() }) {
		p.mu.Lock()
		its := p.mu.hold.holder == holder
		if its && slices.Contains(kept, p) {
			p.setFreeLocked(l.cfg.AdoptTime)
			its = false
		}
		p.mu.Unlock()
		if its {
			l.abandon(p, nil)
		}
	}
}

// setFreeLocked lets the next process have the session, and ends it when none takes it in time.
func (p *Process) setFreeLocked(wait time.Duration) {
	h := &p.mu.hold
	select {
	case <-h.free:
		return
	default:
	}
	close(h.free)
	h.end = time.AfterFunc(wait, func() {
		p.mu.Lock()
		late := p.mu.hold.end != nil
		p.mu.hold.end = nil
		p.mu.Unlock()
		if late {
			p.l.abandon(p, p.l.cfg.Abandoned)
		}
	})
}

// abandon ends a session that nobody holds.
func (l *Launcher) abandon(p *Process, tell func(*Process)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return // Close ends it
	}
	l.work.Go(func() { // waited for by Close; the ladder has its own bound
		if tell != nil {
			tell(p)
		}
		if err := p.KillTree(context.Background()); err != nil {
			l.cfg.Logger.Warn("a session that nobody holds was not ended", "id", p.id, "error", err)
		}
		l.forget(p)
	})
}

// Adopt gives the session to another process of its plugin, once the one that has it has ended. ErrEnded: it was not
// adopted in time, or its thread has ended.
func (p *Process) Adopt(ctx context.Context, holder uint64) error {
	for {
		p.mu.Lock()
		h := &p.mu.hold
		if h.holder == holder {
			p.mu.Unlock()
			return nil
		}
		free := h.free
		select {
		case <-free:
			if h.end == nil { // its time is up
				p.mu.Unlock()
				return ErrEnded
			}
			h.end.Stop()
			*h = holding{holder: holder, free: make(chan struct{})}
			p.mu.Unlock()
			return nil
		default:
		}
		p.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// letGo ends waiting for a process to adopt it.
func (p *Process) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &p.mu.hold
	if h.end != nil {
		h.end.Stop()
		h.end = nil
	}
	select {
	case <-h.free:
	default:
		close(h.free)
	}
}

// IsKept reports whether another process of its plugin may adopt it.
func (p *Process) IsKept() bool { return p.spec.Keep != nil }

// Note is what its plugin wants to know again.
func (p *Process) Note() []byte {
	if p.spec.Keep == nil {
		return nil
	}
	return p.spec.Keep.Note
}

// Cwd is the folder in which it was started.
func (p *Process) Cwd() string { return p.spec.Cwd }

// OnTerminal reports whether it has a terminal.
func (p *Process) OnTerminal() bool { return p.spec.Terminal != nil }

// Started is when it was started.
func (p *Process) Started() time.Time { return p.started }

// Ended returns how it ended, if it has.
func (p *Process) Ended() (Exit, bool) {
	select {
	case <-p.exited:
		return p.exit, true
	default:
		return Exit{}, false
	}
}
