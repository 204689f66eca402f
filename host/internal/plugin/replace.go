package plugin

import (
	"fmt"
	"time"
)

// replace starts a process of spec next to the current one. If there are two processes already, the older one is stopped
// first.
func (o *owner) replace(spec Spec, reply chan<- error) {
	switch {
	case o.closing:
		reply <- ErrClosed
	case o.replacing || o.next != nil:
		reply <- &Error{
			Plugin: o.slot.label, Where: spec.Where, Phase: PhaseStart, Err: errReplacing,
			Next: "try again in a moment",
		}
	case o.mode == ModeStarting || o.mode == ModeDraining:
		o.next = &replacement{spec, reply} // replaceNext begins it
	case o.previous != nil:
		o.next = &replacement{spec, reply}
		o.previous.endDrain()
		o.stopPrevious()
	default:
		o.beginReplacement(replacement{spec, reply})
	}
}

// replaceNext begins the replacement that has been waiting for something else to end.
func (o *owner) replaceNext() {
	if r := o.next; r != nil && !o.closing && o.previous == nil && o.mode != ModeStarting && o.mode != ModeDraining {
		o.next = nil
		o.beginReplacement(*r)
	}
}

func (o *owner) beginReplacement(r replacement) {
	o.replacing = true
	o.number++
	stopTimer(&o.retry)
	o.launch(r.spec, func(o *owner, g *generation, err error) {
		o.replacing = false
		o.replaced(r, g, err)
	})
}

// replaced handles the start of the new process. If it failed, the running process stays in use.
func (o *owner) replaced(r replacement, g *generation, err error) {
	if err == nil && o.closing {
		o.adopt(g) // which stops it
		err = ErrClosed
	}
	if err != nil {
		r.reply <- err
		o.startForWaiters()
		return
	}
	old := o.current
	if old != nil {
		// It finishes its calls; new ones go to the new process. It is not drained during the probation, so that it can take
		// new calls again.
		o.previous, o.previousSpec, o.leaving = old, o.spec, false
		o.probation = time.NewTimer(o.timing().probation)
	}
	o.spec = r.spec
	o.policy.reset()
	o.adopt(g)
	if r.spec.Exclusive != nil && r.spec.Exclusive() {
		o.stopPrevious()
	}
	r.reply <- nil
}

// stopPrevious lets the older process finish its calls, and stops it.
func (o *owner) stopPrevious() {
	stopTimer(&o.probation)
	if o.previous != nil && !o.leaving {
		o.leaving = true
		o.end(o.previous, o.timing().drainSwap)
	}
}

// rollBack makes the older process take the calls again, because the one that replaced it has crashed with err.
func (o *owner) rollBack(err *Error) {
	stopTimer(&o.probation)
	crashed := o.current
	o.lastErr = err
	o.crashes++
	o.current, o.spec, o.previous = o.previous, o.previousSpec, nil
	message := fmt.Sprintf("generation %d crashed; generation %d is in use again: %s", crashed.id.Generation, o.current.id.Generation, err)
	o.set(ModeReady, message)
	o.grantAll()
}

// stopPreviousFor is stopPrevious on behalf of process id. It returns an error if that is not the current process.
func (o *owner) stopPreviousFor(id Identity) error {
	if o.current == nil || o.current.id != id {
		return errNotCurrent
	}
	o.stopPrevious()
	return nil
}
