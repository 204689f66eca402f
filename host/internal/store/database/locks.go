package database

import (
	"context"
	"fmt"
	"time"
)

// Locks are names of which each has one holder at a time, among all processes that use the database. The end of its process
// gives a name back, however it ends.
type Locks interface {
	// Take takes a name. It does not wait: one that is held is a [*HeldError].
	Take(ctx context.Context, name, purpose string) (Lock, error)
	// Holder tells who holds a name, if anybody does.
	Holder(ctx context.Context, name string) (Owner, bool, error)
	// Fence is a condition for a statement, with its arguments, which is true while this process holds a name that it has
	// taken. It is empty where a name can't be lost, or was not taken.
	Fence(name string) (condition string, args []any)
}

// Lock is a name that this process holds.
type Lock interface {
	// Release gives the name back. Calling it again does nothing.
	Release() error
}

// Owner is who holds a name.
type Owner struct {
	PID     int    // 0 when unknown
	Machine string // the name of its machine; empty: it is this one
	Since   time.Time
}

// String is for messages: "process 12", or "process 12 on build-3".
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

// HeldError says that somebody else holds a name.
type HeldError struct {
	Name  string
	Owner Owner
}

// Error implements error.
func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by %s", e.Name, e.Owner) }
