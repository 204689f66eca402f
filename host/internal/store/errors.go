package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

var (
	// ErrClosed comes from every method of a closed store.
	ErrClosed = errors.New("the store is closed")

	// ErrTakenOver is in the [*ConflictError] of a thread that another process has locked while this one could not reach the
	// database for so long that it counted as dead.
	ErrTakenOver = errors.New("another process has taken the thread over")

	// ErrReadsRefused comes from every method that reads the log of a store with Config.RefuseReads.
	ErrReadsRefused = errors.New("this store refuses reads")
)

// Unwritable tells whether a store could not be opened because nothing can be written where it is: its files can't be, or the
// disk is full. One that is there can be opened with [Config.ReadOnly].
func Unwritable(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) || database.IsDenied(err) || database.IsFull(err)
}

// DegradedError says that the store can't write at the moment. Barriers fail with it; events stay in memory up to a bound
// and are written once writing works again.
type DegradedError struct {
	Where   string // the database
	Since   time.Time
	Waiting int // events in memory
	Err     error
}

// Error implements error.
func (e *DegradedError) Error() string {
	return fmt.Sprintf("store %s: nothing was written since %s: %v", e.Where, e.Since.Format(time.TimeOnly), e.Err)
}

// Unwrap returns the error of the write.
func (e *DegradedError) Unwrap() error { return e.Err }

// FullError refuses events of a degraded store whose memory is full. None of the Append's events was taken; the same ones
// may be appended again later.
type FullError struct {
	Waiting int
	Err     error // why nothing is written
}

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("%d events wait to be written, more are not taken: %v", e.Waiting, e.Err)
}

// Unwrap returns the [*DegradedError].
func (e *FullError) Unwrap() error { return e.Err }

// OrderError refuses an event that does not follow the last one of its thread.
type OrderError struct {
	Thread event.ThreadID
	Seq    uint64 // of the event
	Want   uint64 // the number that would follow
}

// Error implements error.
func (e *OrderError) Error() string {
	return fmt.Sprintf("thread %s: event %d does not follow event %d", e.Thread, e.Seq, e.Want-1)
}

// ConflictError says that the stored thread is not the one that is being written: another process wrote to it, or it was
// loaded incompletely. From here on nothing of the thread is written by this store, other threads are not touched.
type ConflictError struct {
	Thread event.ThreadID
	Seq    uint64 // of the first event that does not fit
	Stored uint64 // number of the last stored event
	Err    error  // what the database says, where it was the one to object
}

// Unwrap returns what the database says.
func (e *ConflictError) Unwrap() error { return e.Err }

// Error implements error.
func (e *ConflictError) Error() string {
	if errors.Is(e.Err, ErrTakenOver) {
		return fmt.Sprintf("thread %s: event %d can't be stored: %v while the database could not be reached from here; next: resume the "+
			"thread", e.Thread, e.Seq, e.Err)
	}
	if e.Err != nil {
		return fmt.Sprintf("thread %s: event %d can't be stored: %v; next: export the thread, delete it and import it again", e.Thread, e.Seq, e.Err)
	}
	return fmt.Sprintf("thread %s: event %d can't be stored, the stored thread ends with event %d and another writer's "+
		"events; next: resume the thread", e.Thread, e.Seq, e.Stored)
}

// NotFoundError says that there is no such thread, artifact or setting.
type NotFoundError struct {
	What string // "thread", "artifact" or "setting"
	ID   string
}

// Error implements error.
func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("no %s %q", e.What, e.ID)
	if e.What == "thread" {
		s += "; next: `gantry threads list` shows all"
	}
	return s
}

// AmbiguousError says that several threads fit.
type AmbiguousError struct {
	Query   string
	Threads []ThreadInfo // the most recent ones
	More    bool
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q fits several threads: ", e.Query)
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
	b.WriteString("; next: give more of the id")
	return b.String()
}

// ExistsError refuses to import a thread that is there.
type ExistsError struct{ Thread event.ThreadID }

// Error implements error.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("thread %s exists; next: `gantry threads delete %s` first", e.Thread, e.Thread)
}

// LockedError says that another process, or another part of this one, runs the thread.
type LockedError struct {
	Thread event.ThreadID
	Owner  Owner
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.Owner.Machine != "" {
		return fmt.Sprintf("thread %s is open in process %d on %s; next: attach to it there, or end that process",
			e.Thread, e.Owner.PID, e.Owner.Machine)
	}
	if e.Owner.PID == 0 {
		return fmt.Sprintf("thread %s is open in another process; next: attach to it, or end that process", e.Thread)
	}
	return fmt.Sprintf("thread %s is open in process %d; next: attach to it, or end that process", e.Thread, e.Owner.PID)
}

// DecodeError says that a stored event can't be read by this version. The event comes as an [event.Unknown].
type DecodeError struct {
	Thread event.ThreadID
	Seq    uint64
	Kind   string
	Err    error
}

// Error implements error.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("thread %s: event %d (%s) can't be read: %v; next: update gantry", e.Thread, e.Seq, e.Kind, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// CorruptError says that stored content is not what its digest says.
type CorruptError struct {
	SHA256 string
	Path   string
	Got    string // the digest that it has
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("artifact %s is damaged (its content has digest %s); next: restore %s from a copy, or remove it",
		e.SHA256, e.Got, e.Path)
}
