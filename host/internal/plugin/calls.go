package plugin

import (
	"sync"
	"time"
)

// callCounter counts the leases of one process.
type callCounter struct {
	mu       sync.Mutex
	running  int
	draining bool          // no new leases
	idle     chan struct{} // closed when draining and no lease is left; nil before draining
	lastUse  time.Time
	overruns int // calls in a row that ignored their deadline
}

// enter adds a lease. It returns false if the process takes no new calls.
func (c *callCounter) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return false
	}
	c.running++
	return true
}

// leave removes a lease.
func (c *callCounter) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.lastUse = time.Now()
	if c.running == 0 && c.draining {
		close(c.idle)
	}
}

func (c *callCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// drain refuses new leases. The channel is closed when the last one has been released.
func (c *callCounter) drain() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		c.draining = true
		c.idle = make(chan struct{})
		if c.running == 0 {
			close(c.idle)
		}
	}
	return c.idle
}

// usedSince reports whether there is a lease or has been one since t.
func (c *callCounter) usedSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running > 0 || c.lastUse.After(t)
}

// overran counts a call that exceeded its deadline, and returns how many have done so in a row.
func (c *callCounter) overran() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overruns++
	return c.overruns
}

// finished notes that a call ended in time.
func (c *callCounter) finished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overruns = 0
}

// ending is what the host knows about why a process ends.
type ending struct {
	mu        sync.Mutex
	requested bool
	cause     string
}

// request notes that the process is to end, so that its end is not a crash.
func (e *ending) request() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requested = true
}

// condemn notes why the host is about to kill the process. The first reason is kept.
func (e *ending) condemn(cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == "" {
		e.cause = cause
	}
}

// reason returns whether the end was requested and, if the host killed the process without such a request, why.
func (e *ending) reason() (requested bool, cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requested, e.cause
}
