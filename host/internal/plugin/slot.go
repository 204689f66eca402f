package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Slot is the place of one plugin: at any time it has at most one process that takes calls, and at most one older one that
// finishes its own. Its methods may be called from any goroutine.
type Slot struct {
	label string
	sup   *Supervisor
	// inbox takes what the owner should do next. Unbuffered: accepted means that the owner has it.
	inbox chan func(*owner)
	// done is closed when the owner has ended.
	done chan struct{}

	// What the owner publishes.
	current atomic.Pointer[generation] // takes calls; nil when there is none
	view    atomic.Pointer[view]
}

// view is what a slot shows of its owner's state.
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

// tell hands f to the owner; false when the owner has ended or ctx ended first.
func (p *Slot) tell(ctx context.Context, f func(*owner)) bool {
	select {
	case p.inbox <- f:
		return true
	case <-p.done:
		return false
	case <-ctx.Done():
		return false
	}
}

// Spec is what the slot holds now.
func (p *Slot) Spec() Spec { return p.view.Load().spec }

// Acquire returns the right to make calls, starting the plugin if need be. Callers that come while it starts share that
// start and its error. ctx bounds the wait, not the start: somebody else may want it.
func (p *Slot) Acquire(ctx context.Context) (*Lease, error) {
	if g := p.current.Load(); g != nil && g.enter() {
		return newLease(g), nil
	}
	w := &waiter{reply: make(chan granted, 1)}
	if !p.tell(ctx, func(o *owner) { o.acquire(w) }) {
		return nil, p.refusal(ctx)
	}
	select {
	case r := <-w.reply:
		return r.lease, r.err
	case <-ctx.Done():
		if w.decided.CompareAndSwap(false, true) {
			return nil, p.refusal(ctx)
		}
		r := <-w.reply // the owner was faster: it replies right after deciding
		return r.lease, r.err
	}
}

// refusal is why a wait for the owner ended.
func (p *Slot) refusal(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for plugin %q: %w", p.label, context.Cause(ctx))
	}
	return ErrClosed
}

// Warm starts the plugin in the background if nothing runs, so that the first call need not wait. Errors are for the next
// caller to see.
func (p *Slot) Warm() {
	// Owned by the owner: a tell ends with it at the latest.
	go p.tell(context.Background(), func(o *owner) { o.want() })
}

// Manifest returns what the plugin says about itself: from the running process, else from the cache, else by starting it.
// A binary that is not the locked one is an error in each case.
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

// Reload replaces the process by one from the executable at path, or from the same path when it is empty: see
// [Slot.Replace].
func (p *Slot) Reload(ctx context.Context, path string) error {
	spec := p.Spec()
	if path != "" {
		spec.Path = path
	}
	return p.Replace(ctx, spec)
}

// Replace starts a process of spec beside the running one, describes and configures it, and lets new calls go to it. The
// running one finishes its calls and is then stopped. If the new one fails before it takes calls, or crashes within half a
// minute after, the running one goes on. ctx bounds the wait only.
func (p *Slot) Replace(ctx context.Context, spec Spec) error {
	spec = spec.withDefaults()
	err := spec.validate()
	if err == nil && spec.Label != p.label {
		err = fmt.Errorf("the label can't become %q", spec.Label)
	}
	if err != nil {
		return &Error{Plugin: p.label, Where: spec.Where, Phase: PhaseConfigure, Err: err, Next: "correct the block of the plugin"}
	}
	reply := make(chan error, 1)
	if !p.tell(ctx, func(o *owner) { o.replace(spec, reply) }) {
		return p.refusal(ctx)
	}
	select {
	case err := <-reply:
		return err
	case <-p.done:
		return ErrClosed
	case <-ctx.Done():
		return p.refusal(ctx)
	}
}

// MakeRoom ends the process that stands by after a replacement, politely and without waiting: the one with this number
// needs what it holds, and gives up that the older one could take the calls again. It returns false, and ends nothing, when
// that is not the process that takes calls.
func (p *Slot) MakeRoom(ctx context.Context, generation uint64) bool {
	reply := make(chan bool, 1)
	if !p.tell(ctx, func(o *owner) { reply <- o.makeRoom(Identity{p.label, generation}) }) {
		return false
	}
	select {
	case current := <-reply:
		return current
	case <-p.done:
		return false
	}
}

// Earlier tells whether a process is older than the one with this number and has not ended yet.
func (p *Slot) Earlier(generation uint64) bool {
	older := p.view.Load().previous
	return older != nil && older.id.Generation < generation
}

// Reset gives a broken or crashed plugin another chance: the next call starts it at once.
func (p *Slot) Reset() { p.tell(context.Background(), (*owner).reset) }

// Stop stops the process politely, as [Supervisor.Close] does. The next call starts it again.
func (p *Slot) Stop(ctx context.Context) error {
	reply := make(chan struct{}, 1)
	if !p.tell(ctx, func(o *owner) { o.stop(func() { reply <- struct{}{} }) }) {
		return p.refusal(ctx)
	}
	select {
	case <-reply:
		return nil
	case <-p.done:
		return nil
	case <-ctx.Done():
		return p.refusal(ctx)
	}
}

// close ends the slot for good; it returns when nothing of it is left.
func (p *Slot) close(ctx context.Context) {
	p.tell(context.WithoutCancel(ctx), func(o *owner) { o.close(ctx) })
	<-p.done
}

// Warnings are what the current or last process said of its block when it was configured. Like [Slot.State] they cost nothing.
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

// State is where the slot stands. Unlike [Slot.Status] it costs nothing.
func (p *Slot) State() State { return p.view.Load().state }

// Status looks at everything, which takes the system a moment: it adds up the memory of the plugin's processes.
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
	s.StderrLines, s.StderrDropped = g.runner.stderr.Lines()
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
		} else {
			s.Usage = proc.Usage{}
		}
	}
	return s
}
