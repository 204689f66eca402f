package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Slot supervises one plugin. It has at most one process that takes calls, and at most one older process that finishes its
// calls. Its methods may be called from any goroutine.
type Slot struct {
	label string
	sup   *Supervisor
	// inbox is unbuffered, so that the owner executes each function that it accepts.
	inbox chan func(*owner)
	// done is closed when the owner's goroutine has ended.
	done chan struct{}

	// Published by the owner.
	current atomic.Pointer[generation] // takes calls; nil if there is none
	view    atomic.Pointer[view]
}

// view is the part of the owner's state that the methods of the slot read.
type view struct {
	spec            Spec
	state           State
	shown           *generation // current or last process
	previous        *generation
	starts, crashes int
	lastErr         error
}

func newSlot(s *Supervisor, spec Spec) *Slot {
	p := &Slot{label: spec.Label, sup: s, inbox: make(chan func(*owner)), done: make(chan struct{})}
	p.view.Store(&view{spec: spec, state: State{Plugin: spec.Label, Mode: ModeStopped}})
	return p
}

// send makes the owner call f. It returns false if the owner or ctx has ended first.
func (p *Slot) send(ctx context.Context, f func(*owner)) bool {
	select {
	case p.inbox <- f:
		return true
	case <-p.done:
		return false
	case <-ctx.Done():
		return false
	}
}

// ask makes the owner call f and waits for the reply, which f sends now or makes the owner send later.
func (p *Slot) ask(ctx context.Context, f func(o *owner, reply chan<- error)) error {
	reply := make(chan error, 1)
	if !p.send(ctx, func(o *owner) { f(o, reply) }) {
		return p.waitError(ctx)
	}
	select {
	case err := <-reply:
		return err
	case <-p.done:
		return ErrClosed
	case <-ctx.Done():
		return p.waitError(ctx)
	}
}

// Spec returns the current specification.
func (p *Slot) Spec() Spec { return p.view.Load().spec }

// Acquire returns a lease on the plugin's process, and starts the process if necessary. Callers that wait for the same start
// share its error. ctx bounds the wait but not the start, which other callers may be waiting for.
func (p *Slot) Acquire(ctx context.Context) (*Lease, error) {
	if g := p.current.Load(); g != nil && g.enter() {
		return newLease(g), nil
	}
	w := &waiter{reply: make(chan granted, 1)}
	if !p.send(ctx, func(o *owner) { o.acquire(w) }) {
		return nil, p.waitError(ctx)
	}
	select {
	case r := <-w.reply:
		return r.lease, r.err
	case <-ctx.Done():
		if w.decided.CompareAndSwap(false, true) {
			return nil, p.waitError(ctx)
		}
		r := <-w.reply // the owner has decided already, and replies at once
		return r.lease, r.err
	}
}

// waitError explains why a wait for the owner has ended.
func (p *Slot) waitError(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for plugin %q: %w", p.label, context.Cause(ctx))
	}
	return ErrClosed
}

// Warm starts the plugin in the background if it isn't running, so that the first call doesn't have to wait. An error is
// returned to the next caller of Acquire.
func (p *Slot) Warm() {
	// Ends with the owner's goroutine at the latest.
	go p.send(context.Background(), (*owner).startIfNeeded)
}

// Manifest returns the plugin's manifest: that of the running process, or else the cached one, or else by starting the
// plugin. If the binary does not match the lock file, Manifest returns an error unless the plugin is running.
func (p *Slot) Manifest(ctx context.Context) (*contract.Manifest, error) {
	if g := p.current.Load(); g != nil {
		return g.manifest, nil
	}
	spec := p.Spec()
	program, err := p.sup.cfg.verifiedProgram(spec)
	if err != nil {
		return nil, err
	}
	if m := p.sup.cfg.manifests().Get(program); m != nil && (spec.Kind == contract.KindUnknown || m.Kind == spec.Kind) &&
		(spec.ManifestDigest == "" || m.Digest() == spec.ManifestDigest) {
		return m, nil
	}
	lease, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	return lease.Manifest(), nil
}

// KnownTools returns the cached tool set that this program sent last under the configuration block config, as it was passed
// to [Lease.KeepTools]. It returns nil if there is none, or if the binary can't be verified.
func (p *Slot) KnownTools(config []byte) []byte {
	spec := p.Spec()
	program, err := p.sup.cfg.verifiedProgram(spec)
	if err != nil {
		return nil
	}
	return p.sup.cfg.toolSets().Get(manifest.ToolSetKey(program, config, spec.Env))
}

// Reload replaces the process by one from the executable at path, or from the current path if path is empty. See
// [Slot.Replace].
func (p *Slot) Reload(ctx context.Context, path string) error {
	spec := p.Spec()
	if path != "" {
		spec.Path = path
	}
	return p.Replace(ctx, spec)
}

// Replace starts and configures a process of spec next to the running one, and directs new calls to it. The old process
// finishes its calls and is then stopped. If the new process fails to start, or crashes within half a minute, the old one
// stays in use; see also [Spec.Exclusive]. ctx bounds only the wait.
func (p *Slot) Replace(ctx context.Context, spec Spec) error {
	spec = spec.withDefaults()
	err := spec.validate()
	if err == nil && spec.Label != p.label {
		err = fmt.Errorf("a replacement can't change the label to %q", spec.Label)
	}
	if err != nil {
		return &Error{Plugin: p.label, Where: spec.Where, Phase: PhaseConfigure, Err: err, Next: "correct the block of the plugin"}
	}
	return p.ask(ctx, func(o *owner, reply chan<- error) { o.replace(spec, reply) })
}

// StopPrevious stops the older process that is kept after a replacement, because the process with this generation takes over
// what the older one holds. It doesn't wait for the end. It does nothing and returns false if that generation is not the one
// that takes calls.
func (p *Slot) StopPrevious(ctx context.Context, generation uint64) bool {
	err := p.ask(ctx, func(o *owner, reply chan<- error) { reply <- o.stopPreviousFor(Identity{p.label, generation}) })
	return err == nil
}

// HasOlder reports whether a process older than the one with this generation is still running.
func (p *Slot) HasOlder(generation uint64) bool {
	older := p.view.Load().previous
	return older != nil && older.id.Generation < generation
}

// Stop stops the process in the same way as [Supervisor.Close]. The next call restarts it.
func (p *Slot) Stop(ctx context.Context) error {
	err := p.ask(ctx, func(o *owner, reply chan<- error) { o.stop(func() { reply <- nil }) })
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// close ends the slot and waits for its processes and goroutines.
func (p *Slot) close(ctx context.Context) {
	p.send(context.WithoutCancel(ctx), func(o *owner) { o.close(ctx) })
	<-p.done
}

// Warnings returns what the current or last process reported about its block when it was configured. Like [Slot.State], it is
// cheap.
func (p *Slot) Warnings() []contract.Diagnostic {
	if g := p.view.Load().shown; g != nil {
		return g.warnings
	}
	return nil
}

// Stderr returns the last n lines that the current or last process wrote to standard error.
func (p *Slot) Stderr(n int) []string {
	if g := p.view.Load().shown; g != nil {
		return g.runner.stderr.Tail(n)
	}
	if e, ok := errors.AsType[*Error](p.view.Load().lastErr); ok {
		return e.StderrTail
	}
	return nil
}

// State returns the state of the slot. Unlike [Slot.Status], it is cheap.
func (p *Slot) State() State { return p.view.Load().state }

// Status returns the state of the slot and its processes. It takes some time, because it adds up the memory of all processes
// of the plugin.
func (p *Slot) Status() Status {
	v := p.view.Load()
	s := Status{
		State: v.state, Kind: v.spec.Kind, Source: v.spec.Source, Path: v.spec.Path, SHA256: v.spec.SHA256,
		Starts: v.starts, Crashes: v.crashes, LastError: v.lastErr, StderrTail: p.Stderr(tailLines),
	}
	if v.previous != nil {
		s.Draining = v.previous.id.Generation
	}
	g := v.shown
	if g == nil {
		return s
	}
	s.SHA256, s.Name, s.Version, s.Kind = g.sha256, g.manifest.Name, g.manifest.Version, g.manifest.Kind
	s.Isolation = g.runner.process.Isolation()
	s.StdoutDropped = g.runner.stdout.Dropped()
	s.Started, s.Start = g.ready, g.took
	s.Health = time.Duration(g.latency.Load())
	select {
	case <-g.Exited():
	default:
		s.PID = g.runner.process.PID()
		s.Calls = g.calls.count()
		if u, err := g.runner.process.Usage(true); err == nil {
			s.Usage = u
		}
	}
	return s
}
