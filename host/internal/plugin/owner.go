package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// owner is the state of a slot. Only the slot's own goroutine touches it; everything that takes time happens in
// goroutines that it starts, and comes back as a message.
//
//	           want                 launched
//	Stopped ─────────▶ Starting ───────────────▶ Ready ──── stop ────▶ Draining ──▶ Stopped
//	                    │    ▲                     │
//	             failed │    │ want, after a delay │ exited
//	                    ▼    │                     ▼
//	                   Crashed ◀───────────────────┘
//	                      │ the third within five minutes
//	                      ▼
//	                    Broken ── reset, replace ──▶ Stopped
type owner struct {
	slot  *Slot
	ctx   context.Context // of everything that is started; ends when the slot is closed
	stopx context.CancelCauseFunc
	// polite ends when stops may be polite no longer.
	polite context.Context

	spec    Spec
	mode    Mode
	number  uint64 // of the last process that was started
	work    int    // goroutines that still report
	closing bool

	current *generation
	waiters []*waiter
	policy  crashPolicy
	lastErr error
	starts  int
	crashes int
	retry   *time.Timer // nil: not waiting for a delay
	stopped []func()    // told when Draining is over

	// Replacement.
	replacing    bool
	next         *replacement // waits until previous has ended
	previous     *generation
	previousSpec Spec
	leaving      bool        // previous is being stopped
	probation    *time.Timer // nil: no process stands by
}

// replacement is one request to replace.
type replacement struct {
	spec  Spec
	reply chan<- error
}

// run owns the slot until it is closed.
func (p *Slot) run() {
	defer close(p.done)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	o := &owner{slot: p, ctx: ctx, stopx: cancel, polite: context.Background(), spec: p.Spec(), mode: ModeStopped}
	for !o.closing || o.work > 0 {
		select {
		case f := <-p.inbox:
			f(o)
		case <-timerChannel(o.retry):
			o.retry = nil
			if o.wanted() {
				o.want()
			}
		case <-timerChannel(o.probation):
			o.probation = nil
			o.endPrevious()
		}
	}
	o.failWaiters(ErrClosed)
}

func timerChannel(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

func stopTimer(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// do runs f in a goroutine of this slot; what it returns is done by the owner afterwards.
func (o *owner) do(f func() func(*owner)) {
	o.work++
	// Owned by the slot, which doesn't end before it has reported.
	go func() {
		then := f()
		o.slot.inbox <- func(o *owner) {
			o.work--
			then(o)
		}
	}()
}

// set publishes the state and tells whoever listens.
func (o *owner) set(mode Mode, message string) {
	o.mode = mode
	st := State{Plugin: o.slot.label, Mode: mode, Generation: o.number, Message: message}
	if o.current != nil {
		st.Generation = o.current.id.Generation
	}
	changed := o.slot.view.Load().state != st
	if mode == ModeReady {
		o.slot.current.Store(o.current)
	} else {
		o.slot.current.Store(nil)
	}
	shown := o.current
	if shown == nil && mode != ModeStarting {
		shown = o.slot.view.Load().shown // the last one, with its last lines
	}
	o.slot.view.Store(&view{
		spec: o.spec, state: st, shown: shown, previous: o.previous, starts: o.starts, crashes: o.crashes, lastErr: o.lastErr,
	})
	if changed {
		o.slot.sup.cfg.Logger.Debug("plugin state", "plugin", st.Plugin, "state", st.Mode.String(), "generation", st.Generation, "message", st.Message)
		o.slot.sup.cfg.OnState(st)
	}
}

// want starts a process if none runs, none is on its way and the crash policy allows it; if that asks for a delay, the
// start comes after it.
func (o *owner) want() {
	if o.closing || o.replacing || o.retry != nil {
		return
	}
	switch o.mode {
	case ModeStopped:
	case ModeCrashed:
		if wait := time.Until(o.policy.retryAt()); wait > 0 {
			if o.wanted() {
				o.retry = time.NewTimer(wait)
			}
			return
		}
	default:
		return
	}
	o.number++
	o.set(ModeStarting, "")
	o.launch(o.spec, (*owner).launched)
}

// launch starts process number o.number. Whoever waits for it should not pay for an accident, so one that crashes while it
// starts is started once more, under the next number, before the start counts as failed.
func (o *owner) launch(spec Spec, then func(*owner, *generation, error)) {
	o.process(spec, func(o *owner, g *generation, err error) {
		if !IsCrash(err) || o.closing {
			then(o, g, err)
			return
		}
		o.slot.sup.cfg.Logger.Info("plugin crashed while it was starting, it is started once more", "plugin", o.slot.label, "generation", o.number, "err", err)
		o.crashes++
		o.number++
		o.process(spec, func(o *owner, g *generation, err error) { then(o, g, twice(err)) })
	})
}

// process starts process number o.number.
func (o *owner) process(spec Spec, then func(*owner, *generation, error)) {
	o.starts++
	id := Identity{o.slot.label, o.number}
	o.do(func() func(*owner) {
		g, err := o.slot.sup.start(o.ctx, spec, id)
		return func(o *owner) { then(o, g, err) }
	})
}

// twice says of a second crash that it was not the first.
func twice(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Crash {
		e.Err = fmt.Errorf("%w, and again when it was started once more", e.Err)
	}
	return err
}

// launched is the end of a start.
func (o *owner) launched(g *generation, err error) {
	if err != nil {
		if o.closing {
			o.failWaiters(ErrClosed)
			return
		}
		o.failed(err)
		o.failWaiters(err)
		o.replaceNext()
		return
	}
	o.adopt(g)
	o.replaceNext()
}

// adopt makes g the process that takes calls.
func (o *owner) adopt(g *generation) {
	o.current = g
	o.watch(g)
	if o.closing {
		o.end(g, o.slot.sup.cfg.timing.drainExit)
		return
	}
	o.set(ModeReady, "")
	o.grantAll()
}

// failed counts a start that failed, or a crash.
func (o *owner) failed(err error) {
	now := time.Now()
	var ready time.Time
	if o.current != nil {
		ready = o.current.ready
	}
	o.policy.crashed(ready, now, o.slot.sup.cfg.timing.backoff)
	o.crashes++
	o.lastErr = err
	o.current = nil
	if o.policy.broken() {
		o.set(ModeBroken, err.Error())
		return
	}
	o.set(ModeCrashed, err.Error())
}

// brokenError repeats the last error with what can be done about it.
func (o *owner) brokenError() error {
	e := Error{Plugin: o.slot.label, Where: o.spec.Where, Phase: PhaseStart, Generation: o.number}
	if last, ok := errors.AsType[*Error](o.lastErr); ok {
		e = *last
	}
	e.Crash = true
	e.Err = fmt.Errorf("it failed %d times within %v and is not started again: %w", breakerCrashes, breakerWindow, e.Err)
	e.Next = fmt.Sprintf("see to its cause, then run `gantry plugin reload %s`", o.slot.label)
	return &e
}

// watch looks after g until it ends.
func (o *owner) watch(g *generation) {
	slot := o.slot
	o.do(func() func(*owner) {
		g.monitor(func() { slot.tell(context.Background(), func(o *owner) { o.idle(g) }) })
		<-g.runner.done // its last words are read
		return func(o *owner) {
			o.exited(g)
			o.do(func() func(*owner) { g.cleanUp(); return func(*owner) {} })
		}
	})
}

// exited is the end of a process that took calls.
func (o *owner) exited(g *generation) {
	switch {
	case g == o.previous:
		o.previous, o.leaving = nil, false
		stopTimer(&o.probation)
		o.set(o.mode, o.slot.view.Load().state.Message)
		o.replaceNext()
	case g != o.current:
	default:
		if requested, _ := g.ending.reason(); requested {
			o.current = nil
			o.set(ModeStopped, "")
			return
		}
		err := g.failure()
		if o.previous != nil && !o.leaving && !o.closing {
			o.flipBack(err)
			return
		}
		o.failed(err)
		if o.mode == ModeBroken {
			o.failWaiters(o.brokenError())
		} else if o.wanted() {
			o.want()
		}
	}
}

// end stops g; exited hears of it like of any other end.
func (o *owner) end(g *generation, drain time.Duration) {
	polite := o.polite
	o.do(func() func(*owner) {
		g.stop(polite, drain)
		return func(o *owner) { o.ended(g) }
	})
}

// ended is the end of a stop; the process has been reported by exited before, or will be.
func (o *owner) ended(g *generation) {
	if g == o.current {
		o.current = nil
		o.set(ModeStopped, "")
	}
	if o.mode != ModeDraining {
		for _, f := range o.stopped {
			f()
		}
		o.stopped = nil
	}
	o.replaceNext()
	if o.wanted() {
		o.want()
	}
}

// stop stops the current process and calls then when it is gone.
func (o *owner) stop(then func()) {
	switch o.mode {
	case ModeReady:
		o.set(ModeDraining, "")
		o.stopped = append(o.stopped, then)
		o.end(o.current, o.slot.sup.cfg.timing.drainExit)
	case ModeDraining:
		o.stopped = append(o.stopped, then)
	default:
		then()
	}
}

// idle stops g because nobody called it for long. A call that came meanwhile is served by the next process.
func (o *owner) idle(g *generation) {
	if g == o.current && o.mode == ModeReady && g.calls.count() == 0 {
		o.set(ModeDraining, "idle")
		o.end(g, 0)
	}
}

// reset forgets crashes.
func (o *owner) reset() {
	o.policy.reset()
	stopTimer(&o.retry)
	if o.mode == ModeBroken || o.mode == ModeCrashed {
		o.set(ModeStopped, "")
	}
	if o.wanted() {
		o.want()
	}
}

// close stops everything; run ends when it is gone.
func (o *owner) close(ctx context.Context) {
	if o.closing {
		return
	}
	o.closing = true
	o.polite = ctx
	o.stopx(ErrClosed)
	stopTimer(&o.retry)
	stopTimer(&o.probation)
	o.failWaiters(ErrClosed)
	if o.next != nil {
		o.next.reply <- ErrClosed
		o.next = nil
	}
	if o.previous != nil {
		o.previous.hurryUp()
		if !o.leaving {
			o.leaving = true
			o.end(o.previous, o.slot.sup.cfg.timing.drainExit)
		}
	}
	switch {
	case o.current == nil:
	case o.mode == ModeDraining:
		o.current.hurryUp()
	default:
		o.set(ModeDraining, "")
		o.end(o.current, o.slot.sup.cfg.timing.drainExit)
	}
}
