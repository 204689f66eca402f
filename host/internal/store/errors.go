package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/sink"
)

var (
	// ErrClosed is returned by every method of a closed store.
	ErrClosed = database.ErrClosed

	// ErrTakenOver is the cause of a [*ConflictError] if another process has locked the thread while this one could not reach
	// the database for so long that it was considered dead.
	ErrTakenOver = errors.New("another process has taken over the thread")

	// ErrReadsRefused is returned by every method that reads the log of a store with Config.RefuseReads.
	ErrReadsRefused = errors.New("this store refuses reads")
)

// IsUnwritable tells whether a store could not be opened because nothing can be written where it is: its files can't be, or the
// disk is full. One that is there can be opened with [Config.ReadOnly].
func IsUnwritable(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) || database.IsDenied(err) || database.IsFull(err)
}

// Errors of the queue of events; see package sink.
type (
	DegradedError = sink.DegradedError
	FullError     = sink.FullError
	OrderError    = sink.OrderError
)

// ConflictError says that the stored thread differs from the one that is being written: another process has written to it, or it
// was loaded incompletely. This store writes no further events of the thread; other threads are not affected.
type ConflictError struct {
	Thread event.ThreadID
	Seq    uint64 // number of the first conflicting event
	Stored uint64 // number of the last stored event
	Err    error  // the database's error, or ErrTakenOver; may be nil
}

// Unwrap returns the database's error.
func (e *ConflictError) Unwrap() error { return e.Err }

// Error implements error.
func (e *ConflictError) Error() string {
	s := fmt.Sprintf("thread %s: can't store event %d", e.Thread, e.Seq)
	switch {
	case errors.Is(e.Err, ErrTakenOver):
		s += fmt.Sprintf(": %v while the database was unreachable", e.Err)
	case e.Err != nil:
		s += fmt.Sprintf(": %v", e.Err)
	default:
		s += fmt.Sprintf(": the stored thread ends with event %d of another writer", e.Stored)
	}
	return hint.Line(s, e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *ConflictError) NextStep() string {
	if e.Err != nil && !errors.Is(e.Err, ErrTakenOver) {
		return "export the thread, delete it and import it again"
	}
	return "resume the thread"
}

// NotFoundError says that a thread or an artifact does not exist.
type NotFoundError struct {
	What string // "thread" or "artifact"
	ID   string
}

// Error implements error.
func (e *NotFoundError) Error() string {
	return hint.Line(fmt.Sprintf("no %s %q", e.What, e.ID), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *NotFoundError) NextStep() string {
	if e.What == "thread" {
		return "`gantry threads list` lists all threads"
	}
	return ""
}

// AmbiguousError says that several threads match a query.
type AmbiguousError struct {
	Query   string
	Threads []ThreadInfo // the most recent ones
	More    bool
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q matches several threads: ", e.Query)
	for i, t := range e.Threads {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(t.ID))
		if t.Name != "" {
			fmt.Fprintf(&b, " (%s)", t.Name)
		}
	}
	if e.More {
		b.WriteString(", …")
	}
	return hint.Line(b.String(), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *AmbiguousError) NextStep() string { return "use more of the id" }

// ExistsError says that a new thread has the ID of a stored one.
type ExistsError struct{ Thread event.ThreadID }

// Error implements error.
func (e *ExistsError) Error() string {
	return hint.Line(fmt.Sprintf("thread %s already exists", e.Thread), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *ExistsError) NextStep() string {
	return fmt.Sprintf("delete it first with `gantry threads delete %s`", e.Thread)
}

// LockedError says that the thread is already locked, by another process or in this one.
type LockedError struct {
	Thread event.ThreadID
	Owner  Owner
}

// Error implements error.
func (e *LockedError) Error() string {
	s := fmt.Sprintf("thread %s is open in process %d", e.Thread, e.Owner.PID)
	switch {
	case e.Owner.Machine != "":
		s += " on " + e.Owner.Machine
	case e.Owner.PID == 0:
		s = fmt.Sprintf("thread %s is open in another process", e.Thread)
	}
	return hint.Line(s, e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *LockedError) NextStep() string {
	if e.Owner.Machine != "" {
		return "attach to it there, or end that process"
	}
	return "attach to it, or end that process"
}

// DecodeError says that this version can't decode a stored event. The event is an [event.Unknown].
type DecodeError struct {
	Thread event.ThreadID
	Seq    uint64
	Kind   string
	Err    error
}

// Error implements error.
func (e *DecodeError) Error() string {
	return hint.Line(fmt.Sprintf("thread %s: can't decode event %d (%s): %v", e.Thread, e.Seq, e.Kind, e.Err), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *DecodeError) NextStep() string { return "update gantry" }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }
