package database

import (
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
)

// Kind classifies an error, as far as callers act on it.
type Kind int

// Kinds of errors.
const (
	Unknown     Kind = iota
	Busy             // another process blocks the transaction, which did not happen and may be tried again
	Constraint       // rows violate a constraint
	NoSpace          // there is no space left
	Unreachable      // the server, or the way to it, is gone
	Denied           // it, or the place where it lies, can't be written
	Damaged          // it is not as it was written
)

// Fault is a driver's explanation of an error.
type Fault struct {
	Kind  Kind
	Next  string // what helps; may be empty
	Cause error  // what the system says, where the database keeps it to itself; may be nil
}

// Error is an error of a database, with the next step.
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

// Unwrap returns the driver's error and the system's error.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// Explain returns an [*Error] if the driver can explain err, and err itself otherwise.
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

// Explain explains an error of a read; [DB.Write] explains its own errors.
func (d *DB) Explain(err error) error { return d.explain("read", err) }

// IsConstraint reports whether an error inside a transaction says that rows violate a constraint.
func (d *DB) IsConstraint(err error) bool { return IsConstraint(d.explain("write", err)) }

func is(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}

// IsBusy reports whether another process blocked the transaction for too long.
func IsBusy(err error) bool { return is(err, Busy) }

// IsConstraint reports whether rows violate a constraint.
func IsConstraint(err error) bool { return is(err, Constraint) }

// IsFull reports whether the disk was full.
func IsFull(err error) bool { return is(err, NoSpace) }

// IsUnreachable tells whether the server, or the way to it, is gone.
func IsUnreachable(err error) bool { return is(err, Unreachable) }

// IsDenied tells whether a database, or the place where it lies, can't be written.
func IsDenied(err error) bool { return is(err, Denied) }

// IsDamaged reports whether the database is damaged.
func IsDamaged(err error) bool { return is(err, Damaged) }

// ErrClosed is returned by every method of a closed database.
var ErrClosed = errors.New("the store is closed")

// ErrReadOnly is returned by every write to a database that was opened with Config.ReadOnly.
var ErrReadOnly = errors.New("the database is open read-only")
