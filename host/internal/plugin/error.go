package plugin

import (
	"cmp"
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

// ErrClosed is returned when the supervisor is closed or closing.
var ErrClosed = errors.New("the host is stopping its plugins")

// Phase is the phase of a plugin's life in which an error occurred.
type Phase string

// The phases, in the order of a plugin's life.
const (
	PhaseFind      Phase = "find"      // the executable can't be read
	PhaseVerify    Phase = "verify"    // it is not the locked one
	PhaseStart     Phase = "start"     // it can't be executed
	PhaseHandshake Phase = "handshake" // it doesn't print a valid handshake line
	PhaseConnect   Phase = "connect"   // nothing, or a process other than the plugin, listens on its socket
	PhaseDescribe  Phase = "describe"  // its manifest is invalid, or differs from an earlier one
	PhaseConfigure Phase = "configure" // it rejects its configuration
	PhaseRun       Phase = "run"       // it ended, hung or exceeded a limit while idle
	PhaseCall      Phase = "call"      // the same during a call
)

// Error is an error of a plugin's process, with the information that a person needs to solve it.
type Error struct {
	Plugin string // label
	Where  string // position of the user's block; may be empty
	Phase  Phase
	Call   string // the call that failed; may be empty
	// Generation of the process, or 0 if none was started.
	Generation uint64
	// Crash is set if the process ended without a request, or was killed because it hung or exceeded a limit. During a start,
	// only a signal or a crash report counts as a crash, and an exit status of the plugin's own does not.
	Crash bool
	// Exit is how the process ended. It is nil if the process is running or was not started.
	Exit *proc.Exit
	// Printed is what the process printed instead of the handshake line.
	Printed []string
	// StderrTail contains the last lines of standard error, and Report the crash report of a Go program.
	StderrTail []string
	Report     []string
	// Diagnostics are those of the plugin and of rendering its block. Their paths are relative to the block.
	Diagnostics []contract.Diagnostic
	// Next is the next step, one sentence. It may be empty.
	Next string
	Err  error
}

// summaries describe an error in each phase.
var summaries = map[Phase]string{
	PhaseFind:      "was not found",
	PhaseVerify:    "differs from its lock",
	PhaseStart:     "did not start",
	PhaseHandshake: "did not start",
	PhaseConnect:   "can't be reached",
	PhaseDescribe:  "has an invalid manifest",
	PhaseConfigure: "rejects its configuration",
	PhaseRun:       "ended",
	PhaseCall:      "failed in a call",
}

// Error returns one line.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.Summary())
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

// Summary says which plugin failed to do what, for example `plugin "weather" did not start`.
func (e *Error) Summary() string {
	phase := e.Phase
	if e.Crash && (phase == PhaseDescribe || phase == PhaseConfigure) {
		phase = PhaseStart
	}
	return fmt.Sprintf("plugin %q %s", e.Plugin, cmp.Or(summaries[phase], "failed"))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsCrash reports whether err is an [*Error] with Crash set.
func IsCrash(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Crash
}

// exitTimeout is how long a failed call waits to find out whether the process has ended. The end of a process is noticed within
// a few milliseconds, but sometimes later than the broken connection.
const exitTimeout = 100 * time.Millisecond

// Classify returns an [*Error] if the call on l failed with err because the process ended or its connection broke. Otherwise it
// returns err. If err looks like the end of the process, Classify waits for that for up to 100 ms.
func Classify(err error, l *Lease) error {
	if err == nil || l == nil {
		return err
	}
	if _, done := errors.AsType[*Error](err); done {
		return err
	}
	g := l.generation
	var wait time.Duration
	switch status.Code(err) {
	case codes.Unavailable:
		wait = exitTimeout
	case codes.Canceled, codes.Internal, codes.Unknown:
		// Usually the handler's own error or an interrupt, which must not wait. But a process that is ending cancels its calls as well.
		if requested, cause := g.ending.reason(); requested || cause != "" {
			wait = exitTimeout
		}
	default:
		return err
	}
	if !g.exitedWithin(context.Background(), wait) {
		if status.Code(err) != codes.Unavailable {
			return err
		}
		return g.problem(PhaseCall, fmt.Errorf("the connection broke: %s", status.Convert(err).Message())).withNext("try again; if this happens often, run `gantry plugin inspect " + g.id.Label + "`")
	}
	e := g.failure()
	e.Phase = PhaseCall
	return e
}

func (e *Error) withNext(step string) *Error {
	e.Next = step
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
