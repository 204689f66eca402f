// Package pool keeps gantry-launch processes, and sandboxes, ready for the next command.
//
// It owns: the spare gantry-launch, the sandboxes that wait for a command, when they are prepared, and how long they wait. It must not
// know: what a command is and what it may do.
//
// Start with [Pool.Take].
package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/monitor"
)

// A gantry-launch takes a millisecond to start, most of it for the Go runtime, and as long to end. So there is one more than there are
// commands: the spare, which waits for an order while the model thinks. It has nothing of the host's but its end of the socket. When
// the tree of a command has ended, its gantry-launch becomes the spare, unless there is one.

// ErrClosed: the pool was closed.
var ErrClosed = errors.New("the launcher is closed")

// endTime limits the time in which a sandbox ends that no command has used.
const endTime = 3 * time.Second

// Config is what a pool needs.
type Config struct {
	Start  func() (*monitor.Monitor, error) // starts a gantry-launch
	Wait   time.Duration                    // how long a sandbox waits for a command; 0: none is prepared
	Logger hclog.Logger
}

// Pool keeps gantry-launch processes and sandboxes ready. Its methods may be called concurrently.
type Pool struct {
	cfg  Config
	work sync.WaitGroup // goroutines, and sandboxes that are being taken or ended

	closing context.Context // ends with ErrClosed
	close   context.CancelCauseFunc

	mu struct {
		sync.Mutex
		closed bool

		spare    *monitor.Monitor // nil: there is none
		starting chan struct{}    // closed when the spare has been started; nil: none is being started

		sandboxes []*Sandbox      // that wait, the latest last
		preparing *preparation    // nil: none is being prepared
		resting   map[string]bool // threads for which none is prepared
	}
}

// New returns a pool. It starts nothing.
func New(c Config) *Pool {
	p := &Pool{cfg: c}
	p.closing, p.close = context.WithCancelCause(context.Background())
	p.mu.resting = make(map[string]bool)
	return p
}

// Command is what the pool has to know of a command.
type Command struct {
	Thread  string
	Plugin  string
	Limited bool // resources of its tree are limited, and so counted
}

// Slot is a gantry-launch that takes a command's order, and the sandbox that it has created.
type Slot struct {
	Monitor  *monitor.Monitor
	Sandbox  *Sandbox // nil: none
	Waited   bool     // Monitor was ready before: it may have ended since
	Prepared bool     // Sandbox was created before the command was known
	Reused   bool     // another command was in Sandbox before
}

// Take returns a slot with the sandbox x: one that waits, if there is one, or else a new one. If x is nil it returns the spare, or a
// new gantry-launch.
func (p *Pool) Take(ctx context.Context, c Command, x *control.Box) (Slot, error) {
	if x == nil {
		m, waited, err := p.takeSpare(c)
		return Slot{Monitor: m, Waited: waited}, err
	}
	if s := p.takeSandbox(x, c); s != nil {
		s.box = x
		return Slot{Monitor: s.monitor, Sandbox: s, Waited: true, Prepared: true, Reused: s.used}, nil
	}
	return p.New(ctx, c, x)
}

// New returns a slot with a new sandbox, or if x is nil, with a new gantry-launch.
func (p *Pool) New(ctx context.Context, c Command, x *control.Box) (Slot, error) {
	if x == nil {
		m, err := p.cfg.Start()
		return Slot{Monitor: m}, err
	}
	m, _, err := p.takeSpare(c)
	if err != nil {
		return Slot{}, err
	}
	s, err := p.create(ctx, m, x)
	if err != nil {
		return Slot{}, err
	}
	return Slot{Monitor: s.monitor, Sandbox: s}, nil
}

// takeSpare returns the spare, or a new gantry-launch if there is none that serves the command.
func (p *Pool) takeSpare(c Command) (m *monitor.Monitor, spare bool, err error) {
	if m = p.removeSpare(); m != nil {
		if m.Serves(c.Plugin, c.Limited) && m.Waiting() {
			return m, true, nil
		}
		m.Kill()
	}
	m, err = p.cfg.Start()
	return m, false, err
}

func (p *Pool) removeSpare() *monitor.Monitor {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.mu.spare
	p.mu.spare = nil
	return m
}

// KeepMonitor makes a gantry-launch whose tree has ended the spare, unless there is one or it is full. Otherwise it ends it and
// returns false.
func (p *Pool) KeepMonitor(m *monitor.Monitor) bool {
	p.mu.Lock()
	keep := !p.mu.closed && p.mu.spare == nil && !m.Full()
	if keep {
		p.mu.spare = m
	}
	p.mu.Unlock()
	if !keep {
		m.Kill()
	}
	return keep
}

// EnsureSpare starts a spare in the background unless there is one: after a delay, during which a command that is being started has
// the processors to itself, or once its tree has ended, unless kept says that its gantry-launch has become the spare. If the spare
// can't be started, the next Take reports why.
func (p *Pool) EnsureSpare(delay time.Duration, gone <-chan struct{}, kept func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || p.mu.spare != nil || p.mu.starting != nil {
		return
	}
	p.mu.starting = make(chan struct{})
	p.work.Go(func() { // ends when the command has, at the latest
		late := time.NewTimer(delay)
		defer late.Stop()
		has := false
		select {
		case <-gone:
			has = kept() // the next command may have taken it already, and then starts another
		case <-late.C:
		}
		var m *monitor.Monitor
		if !has {
			m, _ = p.cfg.Start()
		}
		p.mu.Lock()
		close(p.mu.starting)
		p.mu.starting = nil
		if m != nil && !p.mu.closed && p.mu.spare == nil {
			p.mu.spare, m = m, nil
		}
		p.mu.Unlock()
		if m != nil {
			m.Kill()
		}
	})
}

// EndSpare ends the spare.
func (p *Pool) EndSpare() {
	if m := p.removeSpare(); m != nil {
		m.Kill()
	}
}

// Spare waits until no spare is being started, and returns its process id; 0: there is none.
func (p *Pool) Spare() int {
	for {
		p.mu.Lock()
		starting, m := p.mu.starting, p.mu.spare
		p.mu.Unlock()
		switch {
		case starting != nil:
			<-starting
		case m == nil:
			return 0
		default:
			return m.PID()
		}
	}
}

// Ready waits until everything that the pool is preparing is ready, and returns the number of sandboxes that wait.
func (p *Pool) Ready() int {
	for {
		p.mu.Lock()
		preparing, starting, n := p.mu.preparing, p.mu.starting, len(p.mu.sandboxes)
		p.mu.Unlock()
		switch {
		case preparing != nil:
			<-preparing.done
		case starting != nil:
			<-starting
		default:
			return n
		}
	}
}

// Close ends everything that waits, and keeps nothing from now on.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.close(ErrClosed)
	p.giveUp("")
	p.EndSpare()
}

// Wait waits, after Close and the end of all commands, until everything has ended.
func (p *Pool) Wait() { p.work.Wait() }
