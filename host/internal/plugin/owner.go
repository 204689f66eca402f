package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// owner is the state of a slot. Only the slot's own goroutine uses it. Whatever takes time runs in a goroutine that it
// starts, which sends its result back as a message.
//
//	         startIfNeeded          launched
//	Stopped ─────────────▶ Starting ────────▶ Ready ──── stop ────▶ Draining ──▶ Stopped
//	                        │    ▲              │
//	                 failed │    │ delayed      │ exited
//	                        ▼    │              ▼
//	                       Crashed ◀────────────┘
//	                          │ third crash within five minutes
//	                          ▼
//	                        Broken ──── replace ────▶ Ready
type owner struct {
	slot   *Slot
	ctx    context.Context // of everything that is started; ends when the slot is closed
	cancel context.CancelCauseFunc
	// polite ends when processes have to be killed instead of being asked to stop.
	polite context.Context

	spec    Spec
	mode    Mode
	number  uint64 // of the last process that was started
	work    int    // goroutines that have not sent their result yet
	closing bool

	current   *generation
	waiters   []*waiter
	policy    crashPolicy
	lastErr   error
	starts    int
	crashes   int
	retry     *time.Timer // ends the delay before a restart; nil if there is none
	onStopped []func()    // called when Draining is over

	// Replacement.
	replacing    bool
	next         *replacement // waits until previous has ended
	previous     *generation
	previousSpec Spec
	leaving      bool        // previous is being stopped
	probation    *time.Timer // ends the time in which previous can take over again; nil if it can't
}

// replacement is a request to replace the process.
type replacement struct {
	spec  Spec
	reply chan<- error
}

// run owns the slot until it is closed.
func (p *Slot) run() {
	defer close(p.done)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	o := &owner{slot: p, ctx: ctx, cancel: cancel, polite: context.Background(), spec: p.Spec(), mode: ModeStopped}
	for !o.closing || o.work > 0 {
		select {
		case f := <-p.inbox:
			f(o)
		case <-timerChannel(o.retry):
			o.retry = nil
			o.startForWaiters()
		case <-timerChannel(o.probation):
			o.probation = nil
			o.stopPrevious()
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

// do runs f in a goroutine of this slot. The owner then calls the function that f returns.
func (o *owner) do(f func() func(*owner)) {
	o.work++
	// Owned by the slot, which doesn't end before the result has been received.
	go func() {
		then := f()
		o.slot.inbox <- func(o *owner) {
			o.work--
			then(o)
		}
	}()
}

func (o *owner) timing() *timing { return o.slot.sup.cfg.timing }

// set publishes the state.
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
		shown = o.slot.view.Load().shown // the last process, for its last lines
	}
	o.slot.view.Store(&view{
		spec: o.spec, state: st, shown: shown, previous: o.previous, starts: o.starts, crashes: o.crashes, lastErr: o.lastErr,
	})
	if changed {
		o.slot.sup.cfg.Logger.Debug("plugin state", "plugin", st.Plugin, "state", st.Mode.String(), "generation", st.Generation, "message", st.Message)
		o.slot.sup.cfg.OnState(st)
	}
}

// startIfNeeded starts a process if none is running or starting and the crash policy permits it, after the delay that the
// policy demands.
func (o *owner) startIfNeeded() {
	if o.closing || o.replacing || o.retry != nil {
		return
	}
	switch o.mode {
	case ModeStopped:
	case ModeCrashed:
		if wait := time.Until(o.policy.retryAt()); wait > 0 {
			if o.hasWaiters() {
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

// startForWaiters starts a process if a caller is waiting for one.
func (o *owner) startForWaiters() {
	if o.hasWaiters() {
		o.startIfNeeded()
	}
}

// launch starts process number o.number. If it crashes while starting, it is restarted once, with the next number, so that
// an accident doesn't fail the calls that wait for it.
func (o *owner) launch(spec Spec, then func(*owner, *generation, error)) {
	o.launchOnce(spec, func(o *owner, g *generation, err error) {
		if !IsCrash(err) || o.closing {
			then(o, g, err)
			return
		}
		o.slot.sup.cfg.Logger.Info("plugin crashed while starting, restarting it once", "plugin", o.slot.label, "generation", o.number, "err", err)
		o.crashes++
		o.number++
		o.launchOnce(spec, func(o *owner, g *generation, err error) {
			if e, ok := errors.AsType[*Error](err); ok && e.Crash {
				e.Err = fmt.Errorf("%w, and again when it was restarted", e.Err)
			}
			then(o, g, err)
		})
	})
}

// launchOnce starts process number o.number.
func (o *owner) launchOnce(spec Spec, then func(*owner, *generation, error)) {
	o.starts++
	id := Identity{o.slot.label, o.number}
	o.do(func() func(*owner) {
		g, err := o.slot.sup.start(o.ctx, spec, id)
		return func(o *owner) { then(o, g, err) }
	})
}

// launched handles the result of a start.
func (o *owner) launched(g *generation, err error) {
	switch {
	case err == nil:
		o.adopt(g)
	case o.closing:
		o.failWaiters(ErrClosed)
		return
	default:
		o.failed(err)
		o.failWaiters(err)
	}
	o.replaceNext()
}

// adopt makes g the process that takes calls.
func (o *owner) adopt(g *generation) {
	o.current = g
	o.watch(g)
	if o.closing {
		o.end(g, o.timing().drainExit)
		return
	}
	o.set(ModeReady, "")
	o.grantAll()
}

// failed counts a failed start or a crash.
func (o *owner) failed(err error) {
	now := time.Now()
	var ready time.Time
	if o.current != nil {
		ready = o.current.ready
	}
	o.policy.crashed(ready, now, o.timing().backoff)
	o.crashes++
	o.lastErr = err
	o.current = nil
	if o.policy.broken() {
		o.set(ModeBroken, err.Error())
		return
	}
	o.set(ModeCrashed, err.Error())
}

// brokenError is the last error, with the next step for a plugin that is no longer restarted.
func (o *owner) brokenError() error {
	e := Error{Plugin: o.slot.label, Where: o.spec.Where, Phase: PhaseStart, Generation: o.number}
	if last, ok := errors.AsType[*Error](o.lastErr); ok {
		e = *last
	}
	e.Crash = true
	e.Err = fmt.Errorf("it failed %d times within %v and is no longer restarted: %w", breakerCrashes, breakerWindow, e.Err)
	e.Next = fmt.Sprintf("fix the cause, then run `gantry plugin reload %s`", o.slot.label)
	return &e
}

// watch monitors g until it ends.
func (o *owner) watch(g *generation) {
	o.do(func() func(*owner) {
		g.monitor()
		<-g.runner.done // its output has been read
		return func(o *owner) {
			o.exited(g)
			o.do(func() func(*owner) { g.cleanUp(); return func(*owner) {} })
		}
	})
}

// exited handles the end of a process that took calls.
func (o *owner) exited(g *generation) {
	switch requested, _ := g.ending.reason(); {
	case g == o.previous:
		o.previous, o.leaving = nil, false
		stopTimer(&o.probation)
		o.set(o.mode, o.slot.view.Load().state.Message)
		o.replaceNext()
	case g != o.current:
	case requested:
		o.current = nil
		o.set(ModeStopped, "")
	default:
		err := g.failure()
		if o.previous != nil && !o.leaving && !o.closing {
			o.rollBack(err)
			return
		}
		o.failed(err)
		if o.mode == ModeBroken {
			o.failWaiters(o.brokenError())
		} else {
			o.startForWaiters()
		}
	}
}

// end stops g. The end of the process is handled by exited, like any other end.
func (o *owner) end(g *generation, drain time.Duration) {
	polite := o.polite
	o.do(func() func(*owner) {
		g.stop(polite, drain)
		return func(o *owner) { o.ended(g) }
	})
}

// ended handles the end of a stop. exited is called before or after it.
func (o *owner) ended(g *generation) {
	if g == o.current {
		o.current = nil
		o.set(ModeStopped, "")
	}
	if o.mode != ModeDraining {
		for _, f := range o.onStopped {
			f()
		}
		o.onStopped = nil
	}
	o.replaceNext()
	o.startForWaiters()
}

// stop stops the current process and calls then once it has ended.
func (o *owner) stop(then func()) {
	switch o.mode {
	case ModeReady:
		o.set(ModeDraining, "")
		o.onStopped = append(o.onStopped, then)
		o.end(o.current, o.timing().drainExit)
	case ModeDraining:
		o.onStopped = append(o.onStopped, then)
	default:
		then()
	}
}

// close stops all processes; run returns once they have ended.
func (o *owner) close(ctx context.Context) {
	if o.closing {
		return
	}
	o.closing = true
	o.polite = ctx
	o.cancel(ErrClosed)
	stopTimer(&o.retry)
	stopTimer(&o.probation)
	o.failWaiters(ErrClosed)
	if o.next != nil {
		o.next.reply <- ErrClosed
		o.next = nil
	}
	if o.previous != nil {
		o.previous.endDrain()
		if !o.leaving {
			o.leaving = true
			o.end(o.previous, o.timing().drainExit)
		}
	}
	switch {
	case o.current == nil:
	case o.mode == ModeDraining:
		o.current.endDrain()
	default:
		o.set(ModeDraining, "")
		o.end(o.current, o.timing().drainExit)
	}
}
