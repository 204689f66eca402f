// Package hint gives an error the next step: what its reader can do about it.
//
// It owns: how an error carries a next step, and how a front end takes message and next step apart. It must not know: what an
// error is about, how it is displayed.
//
// Start with [New], [With] and [Split]. A type of its own implements NextStep instead.
package hint

import (
	"errors"
	"strings"
)

// Separator stands between message and next step where an error is one line: in logs, in text that crosses a process border.
const Separator = "; next: "

// Error is an error with a next step.
type Error struct {
	Err  error
	Next string // an imperative without a full stop: "give more of the id"
}

// Error returns the message and the next step in one line.
func (e *Error) Error() string { return Line(e.Err.Error(), e.Next) }

// Unwrap returns the error without its next step.
func (e *Error) Unwrap() error { return e.Err }

// NextStep returns what the reader can do.
func (e *Error) NextStep() string { return e.Next }

// New returns an error with a message and a next step.
func New(message, next string) error { return With(errors.New(message), next) }

// With adds a next step to an error.
func With(err error, next string) error { return &Error{err, next} }

// Line joins a message and its next step, which may be empty.
func Line(message, next string) string {
	if next == "" {
		return message
	}
	return message + Separator + next
}

// Parse returns the error that a line from another process is, which may end with a next step.
func Parse(line string) error {
	message, next, _ := strings.Cut(line, Separator)
	if next == "" {
		return errors.New(line)
	}
	return New(message, next)
}

// Stepper is an error that knows the next step. Its Error method may append it after [Separator].
type Stepper interface {
	error
	NextStep() string
}

// Split returns the message of an error without its next step, and the next step of the outermost error that has one. Both are
// the whole message and "" where none has.
func Split(err error) (message, next string) {
	message, next = err.Error(), find(err)
	if next == "" {
		return message, ""
	}
	if before, after, ok := strings.Cut(message, Separator+next); ok {
		message = before + after
	}
	return message, next
}

// find walks the tree of an error, outermost first. [errors.As] would stop at a Stepper that has nothing to say.
func find(err error) string {
	if s, ok := err.(Stepper); ok {
		if next := s.NextStep(); next != "" {
			return next
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return find(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if next := find(inner); next != "" {
				return next
			}
		}
	}
	return ""
}
