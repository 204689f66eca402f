package database

import (
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
)

// Kind is what an error means, as far as somebody acts on it.
type Kind int

// The kinds.
const (
	Unknown     Kind = iota
	Busy             // another process is in the way; the transaction did not happen and may be tried again
	Constraint       // rows contradict each other
	NoSpace          // there is no space left
	Unreachable      // the server, or the way to it, is gone
	Denied           // it, or the place where it lies, can't be written
	Damaged          // it is not as it was written
)

// Fault is what a driver says of an error.
type Fault struct {
	Kind  Kind
	Next  string // what helps; may be empty
	Cause error  // what the system says, where the database keeps it to itself; may be nil
}

// Error says what could not be done with a database, and what helps.
type Error struct {
	Where string // see [DB.Where]
	Op    string // "open", "read", "write" or "migrate"
	Fault
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s database %s: %v", e.Op, e.Where, e.Err)
	if e.Cause != nil {
		s = fmt.Sprintf("%s database %s: %v (%v)", e.Op, e.Where, e.Cause, e.Err)
	}
	return hint.Line(s, e.Next)
}

// NextStep implements [hint.Stepper].
func (e *Error) NextStep() string { return e.Next }

// Unwrap returns the driver's error, and the system's.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// Explain makes an [*Error] of an error that a driver has something to say about. Others pass.
func Explain(c Conn, op string, err error) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*Error](err); done {
		return err
	}
	f, ok := c.Fault(err)
	if !ok {
		return err
	}
	return &Error{Where: c.Where(), Op: op, Fault: f, Err: err}
}

func (d *DB) explain(op string, err error) error { return Explain(d.conn, op, err) }

// Explain does for an error of a read what [DB.Write] does for its own.
func (d *DB) Explain(err error) error { return d.explain("read", err) }

// IsConstraint tells of an error inside a transaction whether rows contradict each other.
func (d *DB) IsConstraint(err error) bool { return IsConstraint(d.explain("write", err)) }

func is(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}

// IsBusy tells whether another process was in the way for too long.
func IsBusy(err error) bool { return is(err, Busy) }

// IsConstraint tells whether rows contradict each other.
func IsConstraint(err error) bool { return is(err, Constraint) }

// IsFull tells whether the disk was full.
func IsFull(err error) bool { return is(err, NoSpace) }

// IsUnreachable tells whether the server, or the way to it, is gone.
func IsUnreachable(err error) bool { return is(err, Unreachable) }

// IsDenied tells whether a database, or the place where it lies, can't be written.
func IsDenied(err error) bool { return is(err, Denied) }

// IsDamaged tells whether the database is not as it was written.
func IsDamaged(err error) bool { return is(err, Damaged) }

// ErrClosed is returned by every method of a closed database.
var ErrClosed = errors.New("the store is closed")

// ErrReadOnly comes from every write to a database that was opened with Config.ReadOnly.
var ErrReadOnly = errors.New("the database is open read-only")
