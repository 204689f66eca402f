package tool

import (
	"sync"
	"time"
)

// Clock measures the duration of a call, excluding time spent waiting for a person. The host pauses and resumes it.
type Clock struct {
	mu struct {
		sync.Mutex
		counted time.Duration // elapsed until the last pause
		since   time.Time     // when the clock last started; meaningless while paused
		paused  bool
		timers  map[*Timer]struct{}
	}
}

func newClock() *Clock {
	k := &Clock{}
	k.mu.since = time.Now()
	k.mu.timers = map[*Timer]struct{}{}
	return k
}

// Elapsed returns the time since the call started, without pauses.
func (k *Clock) Elapsed() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.paused {
		return k.mu.counted
	}
	return k.mu.counted + time.Since(k.mu.since)
}

// Paused reports whether the call is currently waiting for a person.
func (k *Clock) Paused() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.paused
}

// NewTimer returns a timer that fires once, after d of unpaused time. Stop it when it is no longer needed.
func (k *Clock) NewTimer(d time.Duration) *Timer {
	c := make(chan time.Time, 1)
	t := &Timer{C: c, clock: k, left: d, fire: func() { c <- time.Now() }}
	k.add(t)
	return t
}

// afterFunc runs f in its own goroutine after d of unpaused time.
func (k *Clock) afterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{clock: k, left: d, fire: f}
	k.add(t)
	return t
}

func (k *Clock) add(t *Timer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.timers[t] = struct{}{}
	if !k.mu.paused {
		t.startLocked()
	}
}

func (k *Clock) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.paused {
		return
	}
	k.mu.paused = true
	k.mu.counted += time.Since(k.mu.since)
	for t := range k.mu.timers {
		t.stopLocked()
	}
}

func (k *Clock) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.mu.paused {
		return
	}
	k.mu.paused = false
	k.mu.since = time.Now()
	for t := range k.mu.timers {
		t.startLocked()
	}
}

// Timer is a timer of a [Clock].
type Timer struct {
	C <-chan time.Time // receives the time once

	clock      *Clock
	fire       func()
	left       time.Duration // as of started while the timer runs, or as of the pause
	started    time.Time
	inner      *time.Timer
	generation uint64 // incremented by each start; a firing of an earlier start is ignored
}

func (t *Timer) startLocked() {
	t.started = time.Now()
	t.generation++
	run := t.generation
	t.inner = time.AfterFunc(t.left, func() {
		t.clock.mu.Lock()
		_, wanted := t.clock.mu.timers[t]
		wanted = wanted && t.generation == run && !t.clock.mu.paused
		if wanted {
			delete(t.clock.mu.timers, t)
		}
		t.clock.mu.Unlock()
		if wanted {
			t.fire()
		}
	})
}

func (t *Timer) stopLocked() {
	if t.inner != nil {
		t.inner.Stop()
		t.left = max(0, t.left-time.Since(t.started))
	}
}

// Stop releases the timer, which then never fires.
func (t *Timer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.mu.timers, t)
	if t.inner != nil {
		t.inner.Stop()
	}
}
