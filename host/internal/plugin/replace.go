package plugin

import (
	"fmt"
	"time"
)

// replace starts a process of spec beside the current one. With two processes there already, the older one has to go
// first.
func (o *owner) replace(spec Spec, reply chan<- error) {
	switch {
	case o.closing:
		reply <- ErrClosed
	case o.replacing || o.next != nil:
		reply <- &Error{
			Plugin: o.slot.label, Where: spec.Where, Phase: PhaseStart, Err: errUnderWay,
			Next: "try again in a moment",
		}
	case o.mode == ModeStarting || o.mode == ModeDraining:
		o.next = &replacement{spec, reply} // as soon as that is over
	case o.previous != nil:
		o.next = &replacement{spec, reply}
		o.previous.hurryUp()
		o.endPrevious()
	default:
		o.beginReplacement(replacement{spec, reply})
	}
}

// replaceNext begins the replacement that waited for something else to end.
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

// replaced is the end of the new process's start. If it failed nothing has changed: the process that runs goes on.
func (o *owner) replaced(r replacement, g *generation, err error) {
	if err == nil && o.closing {
		o.adopt(g) // which stops it
		err = ErrClosed
	}
	if err != nil {
		r.reply <- err
		if o.wanted() {
			o.want()
		}
		return
	}
	old := o.current
	if old != nil {
		// It stands by: its calls go on, new ones go to the new process. Until the probation is over it could take them
		// again, so it isn't told to refuse any.
		o.previous, o.previousSpec, o.leaving = old, o.spec, false
		o.probation = time.NewTimer(o.slot.sup.cfg.timing.probation)
	}
	o.spec = r.spec
	o.policy.reset()
	o.adopt(g)
	r.reply <- nil
}

// endPrevious lets the older process finish its calls, and stops it.
func (o *owner) endPrevious() {
	stopTimer(&o.probation)
	if o.previous != nil && !o.leaving {
		o.leaving = true
		o.end(o.previous, o.slot.sup.cfg.timing.drainSwap)
	}
}

// flipBack gives the calls back to the process that stands by, since the one that replaced it crashed.
func (o *owner) flipBack(err *Error) {
	stopTimer(&o.probation)
	crashed := o.current
	o.lastErr = err
	o.crashes++
	o.current, o.spec, o.previous = o.previous, o.previousSpec, nil
	message := fmt.Sprintf("generation %d crashed, generation %d goes on: %s", crashed.id.Generation, o.current.id.Generation, err)
	o.set(ModeReady, message)
	o.grantAll()
}

// makeRoom ends the older process, because the one that takes the calls needs what it holds. false: that is another one
// than asks.
func (o *owner) makeRoom(id Identity) bool {
	if o.current == nil || o.current.id != id {
		return false
	}
	o.endPrevious()
	return true
}
