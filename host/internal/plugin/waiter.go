package plugin

import (
	"slices"
	"sync/atomic"
)

// waiter waits for a lease. Whoever sets decided first, the owner or the caller that gives up, has the last word.
type waiter struct {
	decided atomic.Bool
	reply   chan granted
}

type granted struct {
	lease *Lease
	err   error
}

// acquire answers w now, or when a start is over.
func (o *owner) acquire(w *waiter) {
	switch {
	case o.closing:
		w.answer(granted{err: ErrClosed})
	case o.mode == ModeBroken:
		w.answer(granted{err: o.brokenError()})
	case o.mode == ModeReady && o.grant(w):
	default:
		o.waiters = append(o.waiters, w)
		o.want()
	}
}

// grant gives w a lease on the current process; false when that takes no calls any more.
func (o *owner) grant(w *waiter) bool {
	if !o.current.enter() {
		return false
	}
	l := newLease(o.current)
	if !w.answer(granted{lease: l}) {
		l.Release()
	}
	return true
}

// answer tells whether the caller was still there.
func (w *waiter) answer(r granted) bool {
	if !w.decided.CompareAndSwap(false, true) {
		return false
	}
	w.reply <- r
	return true
}

// wanted tells whether anybody still waits. Callers that gave up are forgotten.
func (o *owner) wanted() bool {
	o.waiters = slices.DeleteFunc(o.waiters, func(w *waiter) bool { return w.decided.Load() })
	return len(o.waiters) > 0
}

// grantAll answers everybody who waits.
func (o *owner) grantAll() {
	for len(o.waiters) > 0 && o.grant(o.waiters[0]) {
		o.waiters = o.waiters[1:]
	}
}

func (o *owner) failWaiters(err error) {
	for _, w := range o.waiters {
		w.answer(granted{err: err})
	}
	o.waiters = nil
}
