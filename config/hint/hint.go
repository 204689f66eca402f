// Package hint adds the next step to an error: what its reader can do about it.
//
// It owns how an error carries a next step, and how a front end separates the message from it. It does not know what an error is
// about or how it is displayed.
//
// Start with [New], [With] and [Split]. Error types of other packages implement NextStep instead.
package hint

import (
	"errors"
	"strings"
)

// Separator separates message and next step where an error is a single line: in logs, and in text that crosses a process border.
const Separator = "; next: "

// Error is an error with a next step.
type Error struct {
	Err  error
	Next string // imperative without a full stop: "specify more characters of the ID"
}

// Error returns the message and the next step on one line.
func (e *Error) Error() string { return Line(e.Err.Error(), e.Next) }

// Unwrap returns the error without its next step.
func (e *Error) Unwrap() error { return e.Err }

// NextStep returns the next step.
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

// Parse converts a line from another process, which may contain a next step, to an error.
func Parse(line string) error {
	message, next, _ := strings.Cut(line, Separator)
	if next == "" {
		return errors.New(line)
	}
	return New(message, next)
}

// Stepper is an error with a next step. Its Error method may append the step after [Separator].
type Stepper interface {
	error
	NextStep() string
}

// Split returns the message of an error without its next step, and the next step of the outermost error that has one. If there is
// none, next is "".
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

// find walks the error tree, outermost first. [errors.As] would stop at a Stepper whose next step is empty.
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
