package database

import (
	"context"
	"fmt"
	"time"
)

// Locks are named exclusive locks among all processes that use the database. The end of a process releases its locks, however it
// ends.
type Locks interface {
	// Take acquires a lock. It does not wait: if the lock is held, the error is a [*HeldError].
	Take(ctx context.Context, name, purpose string) (Lock, error)
	// Holder returns the process that holds a lock, if any.
	Holder(ctx context.Context, name string) (Owner, bool, error)
	// Fence returns an SQL condition and its arguments. The condition is true while this process holds a lock that it has
	// acquired. It is empty if the lock can't be lost, or was not acquired.
	Fence(name string) (condition string, args []any)
}

// Lock is a lock that this process holds.
type Lock interface {
	// Release releases the lock. Further calls do nothing.
	Release() error
}

// Owner is the process that holds a lock.
type Owner struct {
	PID     int    // 0: unknown
	Machine string // name of its machine; empty: this machine
	Since   time.Time
}

// String returns a text for messages: "process 12", or "process 12 on build-3".
func (o Owner) String() string {
	s := "another process"
	if o.PID != 0 {
		s = fmt.Sprintf("process %d", o.PID)
	}
	if o.Machine != "" {
		s += " on " + o.Machine
	}
	return s
}

// HeldError says that a lock is already held.
type HeldError struct {
	Name  string
	Owner Owner
}

// Error implements error.
func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by %s", e.Name, e.Owner) }
