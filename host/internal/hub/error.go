package hub

import (
	"errors"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// Code is the kind of an error, for programs. It is the same whether the thread runs here or in another process.
type Code string

// The codes.
const (
	NotFound     Code = "not_found" // a thread, an artifact, a setting, a goal, a queued submission or a command of a plugin
	Locked       Code = "locked"    // another process runs the thread, and can't be reached
	IsArchived   Code = "archived"  // the thread is archived
	Damaged      Code = "damaged"   // the stored data of a thread or an artifact
	Refused      Code = "refused"   // undo would lose changes
	Foreign      Code = "foreign"   // the host that runs the thread has started this process
	Busy         Code = "busy"      // a turn runs
	NoTurn       Code = "no_turn"   // no turn runs
	OtherTurn    Code = "other_turn"
	NotSteerable Code = "not_steerable" // the running turn accepts no input
	Answered     Code = "answered"      // the question is not pending
	Closed       Code = "closed"        // the thread has ended or was unloaded, or the hub is closed
	Invalid      Code = "invalid"       // the request can't be met, whatever the thread does
	NotConfirmed Code = "not_confirmed" // the user has not agreed to what a command of a plugin does
	Lagged       Code = "lagged"        // the reader was too slow
)

// Error describes an error of the hub for a front end.
type Error struct {
	Code    Code // "": no kind of its own
	Message string
	Next    string // what the user can do; "": unknown
	Task    string // of NotSteerable: what the turn does: "compact", "review", "user_shell"
}

// errClosed says that a thread has ended or was unloaded, or that the hub is closed.
var errClosed = thread.ErrClosed

// Error implements error.
func (e *Error) Error() string { return hint.Line(e.Message, e.Next) }

// NextStep implements [hint.Stepper].
func (e *Error) NextStep() string { return e.Next }

// ErrorOf describes an error that the hub, a thread, [Events] or [Changes] returned. Errors of threads in other processes are described
// like those of threads here.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*threadsocket.Error](err); ok {
		return &Error{Code: Code(e.Code), Message: e.Message, Next: e.Next, Task: e.Task}
	}
	e := &Error{Code: Code(threadsocket.CodeOf(err))}
	e.Message, e.Next = hint.Split(err)
	if n, ok := errors.AsType[*thread.NotSteerableError](err); ok {
		e.Task = n.Kind
	}
	switch {
	case unreachable(err):
		e.Code = Locked
	case errors.Is(err, threadsocket.ErrGone):
		e.Code = Closed
	case errors.Is(err, errLagged):
		e.Code = Lagged
	}
	return e
}

// unreachable reports whether an error says that a process runs a thread and can't be asked, so that trying again would
// only take longer.
func unreachable(err error) bool {
	_, silent := errors.AsType[*threadsocket.SilentError](err)
	_, older := errors.AsType[*threadsocket.OlderError](err)
	return silent || older
}
