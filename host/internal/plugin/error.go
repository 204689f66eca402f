package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// ErrClosed is returned when the supervisor is closed or closing. There is nothing to do about it.
var ErrClosed = errors.New("the host is stopping its plugins")

// Phase is when something went wrong with a plugin.
type Phase string

// The phases, in the order of a plugin's life.
const (
	PhaseFind      Phase = "find"      // the executable can't be read
	PhaseVerify    Phase = "verify"    // it is not the one that was locked
	PhaseStart     Phase = "start"     // it can't be executed
	PhaseHandshake Phase = "handshake" // it doesn't say where it listens
	PhaseConnect   Phase = "connect"   // nobody, or somebody else, listens there
	PhaseDescribe  Phase = "describe"  // its manifest is wrong, or another than before
	PhaseConfigure Phase = "configure" // it refuses its configuration
	PhaseRun       Phase = "run"       // it ended, hung or exceeded a limit while it was idle
	PhaseCall      Phase = "call"      // the same during a call
	PhaseStop      Phase = "stop"
)

// Error is a problem with a plugin's process, with what a person needs to solve it.
type Error struct {
	Plugin string // label
	Where  string // place of the user's block; may be empty
	Phase  Phase
	Call   string // what was called; may be empty
	// Generation of the process; 0: none was started.
	Generation uint64
	// Crash: the process ended without being asked to, or had to be ended because it hung or exceeded a limit. While it
	// starts, only an accident counts: a signal or a crash report, but not a status that it chose itself.
	Crash bool
	// Exit is how the process ended; nil while it runs or when there was none.
	Exit *proc.Exit
	// Printed is what stood on standard output where the handshake was expected.
	Printed []string
	// StderrTail are its last lines there; Report is what a dying Go program wrote, from its first line on.
	StderrTail []string
	Report     []string
	// Diagnostics came from the plugin, or from rendering its block. Paths lie in the block.
	Diagnostics []contract.Diagnostic
	// Next is what to do, one sentence; may be empty.
	Next string
	Err  error
}

// happened says in people's words what a problem in this phase means.
func (p Phase) happened() string {
	switch p {
	case PhaseFind:
		return "was not found"
	case PhaseVerify:
		return "is not the one that was locked"
	case PhaseStart, PhaseHandshake:
		return "did not start"
	case PhaseConnect:
		return "can't be reached"
	case PhaseDescribe:
		return "describes itself wrongly"
	case PhaseConfigure:
		return "refuses its configuration"
	case PhaseRun:
		return "ended"
	case PhaseCall:
		return "failed in a call"
	case PhaseStop:
		return "did not stop"
	}
	return "failed"
}

// Error returns one line.
func (e *Error) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "plugin %q %s", e.Plugin, e.happened())
	if e.Call != "" {
		s.WriteString(" (" + e.Call + ")")
	}
	if e.Err != nil {
		s.WriteString(": " + e.Err.Error())
	}
	if e.Exit != nil {
		s.WriteString("; it " + e.Exit.String())
	}
	return s.String()
}

// happened: what crashed in the middle of an introduction describes nothing and refuses nothing.
func (e *Error) happened() string {
	if e.Crash && (e.Phase == PhaseDescribe || e.Phase == PhaseConfigure) {
		return PhaseStart.happened()
	}
	return e.Phase.happened()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsCrash tells whether err means that a plugin's process ended without being asked to.
func IsCrash(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Crash
}

// exitPatience is how long a failed call waits to learn whether the process is gone. The end of a process is noticed
// within a few milliseconds; the broken connection sometimes earlier.
const exitPatience = 100 * time.Millisecond

// Classify turns the error of a call on l into an [*Error] when the process died, and returns it as it is otherwise. It
// waits up to 100 ms for the process's end where the error looks like one.
func Classify(err error, l *Lease) error {
	if err == nil || l == nil {
		return err
	}
	if _, done := errors.AsType[*Error](err); done {
		return err
	}
	g := l.generation
	var patience time.Duration
	switch status.Code(err) {
	case codes.Unavailable:
		patience = exitPatience
	case codes.Canceled, codes.Internal, codes.Unknown:
		// Usually the call's own business, and an interrupt must not wait; but a process on its way out cancels calls too.
		if requested, cause := g.ending.reason(); requested || cause != "" {
			patience = exitPatience
		}
	default:
		return err
	}
	if !g.exitedWithin(context.Background(), patience) {
		if status.Code(err) != codes.Unavailable {
			return err
		}
		e := g.problem(PhaseCall, fmt.Errorf("the connection broke: %s", status.Convert(err).Message()))
		e.Next = "try again; if it happens often, look at `gantry plugin inspect " + g.id.Label + "`"
		return e
	}
	e := g.failure()
	e.Phase = PhaseCall
	return e
}

// NextStep returns what a person should do: Next, or the next step of the first diagnostic that has one.
func (e *Error) NextStep() string {
	if e.Next != "" {
		return e.Next
	}
	for _, d := range e.Diagnostics {
		if d.Next != "" {
			return d.Next
		}
	}
	return ""
}
