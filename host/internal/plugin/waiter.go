package plugin

import (
	"slices"
	"sync/atomic"
)

// waiter is a caller that waits for a lease. Either the owner answers or the caller gives up, whichever sets decided first.
type waiter struct {
	decided atomic.Bool
	reply   chan granted
}

type granted struct {
	lease *Lease
	err   error
}

// acquire answers w now, or when a start has ended.
func (o *owner) acquire(w *waiter) {
	switch {
	case o.closing:
		w.answer(granted{err: ErrClosed})
	case o.mode == ModeBroken:
		w.answer(granted{err: o.brokenError()})
	case o.mode == ModeReady && o.grant(w):
	default:
		o.waiters = append(o.waiters, w)
		o.startIfNeeded()
	}
}

// grant gives w a lease on the current process. It returns false if that takes no new calls.
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

// answer reports whether the caller was still waiting.
func (w *waiter) answer(r granted) bool {
	if !w.decided.CompareAndSwap(false, true) {
		return false
	}
	w.reply <- r
	return true
}

// hasWaiters reports whether a caller is waiting. It removes those that have given up.
func (o *owner) hasWaiters() bool {
	o.waiters = slices.DeleteFunc(o.waiters, func(w *waiter) bool { return w.decided.Load() })
	return len(o.waiters) > 0
}

// grantAll gives all waiting callers a lease.
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
