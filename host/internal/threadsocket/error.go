package threadsocket

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/undo"
)

// Code is the kind of a host's error, for programs. It is empty if the error has no kind.
type Code string

// Codes.
const (
	NotFound Code = "not_found" // a thread, an artifact, a setting, a goal, a queued submission or a command of a plugin
	Locked   Code = "locked"    // another process runs the thread
	Archived Code = "archived"
	Damaged  Code = "damaged" // the stored data of a thread or artifact
	Refused  Code = "refused" // undo would lose changes
	Foreign  Code = "foreign" // this host started the calling process

	Busy         Code = "busy"    // a turn runs
	NoTurn       Code = "no_turn" // no turn runs
	OtherTurn    Code = "other_turn"
	NotSteerable Code = "not_steerable" // the running turn accepts no input
	Answered     Code = "answered"      // the question is not pending
	Closed       Code = "closed"        // the thread has ended
	Invalid      Code = "invalid"       // the request can't be met, whatever the thread does
	NotConfirmed Code = "not_confirmed" // the user has not agreed to what a command of a plugin does
)

// Errors of commands of plugins.
var (
	ErrNoCommand    = errors.New("no command")
	ErrNotConfirmed = errors.New("not confirmed")
)

// Error is an error that a host answered with.
type Error struct {
	Code    Code
	Message string
	Next    string // what the user can do; empty: unknown
	Task    string // of NotSteerable: what the turn does
}

// Error implements error.
func (e *Error) Error() string { return hint.Line(e.Message, e.Next) }

// NextStep implements [hint.Stepper].
func (e *Error) NextStep() string { return e.Next }

// errorData is the data of a response's error. The error's message contains the next step as well, for clients that display
// nothing else.
type errorData struct {
	Code Code   `json:"code,omitempty"`
	Next string `json:"next,omitempty"`
	Task string `json:"task,omitempty"`
}

// wireError converts an error of the host to the error of a response.
func wireError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*rpc.Error](err); ok {
		return err
	}
	message, next := hint.Split(err)
	e := &rpc.Error{Code: rpc.InvalidRequest, Message: hint.Line(message, next)}
	d := errorData{Code: CodeOf(err), Next: next}
	if n, ok := errors.AsType[*thread.NotSteerableError](err); ok {
		d.Task = n.Kind
	}
	if d != (errorData{}) {
		e.Data = d
	}
	return e
}

// errorOf converts the error of a response.
func errorOf(e *rpc.Error) error {
	var d errorData
	raw, ok := e.Data.(json.RawMessage)
	if !ok || json.Unmarshal(raw, &d) != nil {
		return hint.Parse(e.Message) // another program
	}
	message := e.Message
	if d.Next != "" {
		message = strings.Replace(message, hint.Separator+d.Next, "", 1)
	}
	return &Error{d.Code, message, d.Next, d.Task}
}

// CodeOf returns the kind of an error of this process.
func CodeOf(err error) Code {
	switch {
	case errors.Is(err, thread.ErrBusy):
		return Busy
	case errors.Is(err, thread.ErrIdle), errors.Is(err, thread.ErrNoTurn):
		return NoTurn
	case is[*thread.OtherTurnError](err):
		return OtherTurn
	case is[*thread.NotSteerableError](err):
		return NotSteerable
	case errors.Is(err, approval.ErrUnknownQuestion):
		return Answered
	case errors.Is(err, thread.ErrClosed), errors.Is(err, orchestrate.ErrShutdown): // the latter of what was under way
		return Closed
	case errors.Is(err, thread.ErrArchived):
		return Archived
	case is[*store.NotFoundError](err), is[*queue.GoneError](err), errors.Is(err, thread.ErrNoInput), errors.Is(err, ErrNoCommand), errors.Is(err, goal.ErrNone):
		return NotFound
	case errors.Is(err, ErrNotConfirmed):
		return NotConfirmed
	case is[*store.LockedError](err):
		return Locked
	case is[*branch.ArchivedError](err):
		return Archived
	case is[*store.DamageError](err), is[*store.CorruptError](err):
		return Damaged
	case is[*queue.InvalidError](err), is[*goal.InvalidError](err), is[*hosttool.ClientToolError](err):
		return Invalid
	case is[*undo.RefusedError](err):
		return Refused
	case errors.Is(err, errFamily):
		return Foreign
	}
	return ""
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
