// Package hook runs the user's programs that observe a thread and may stop what happens in it.
//
// It owns: which hooks exist and which of them may run, their input, the meaning of their answers, their limits, and how several
// answers are combined. It must not know: which tools exist, how a turn or a call continues, which format the host's configuration
// has.
//
// Start with [Engine]. Other packages use [Hooks], around a call, and the methods of [Turn], around a turn.
package hook

import (
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Call describes a call to a hook.
type Call struct {
	Thread, Turn, ID string
	Tool             string   // the tool's name for hooks
	Aliases          []string // further names that a matcher may match
	Chain            []string // of a nested call: the tools from the model's call to this one, by their names for models
	Input            json.RawMessage
	Cwd              string
}

// Verdict is the answer of hooks before a call. The zero value lets it run.
type Verdict struct {
	Deny    bool
	Stop    bool            // denied, and the turn ends
	Ask     bool            // ask a person even if the policy would not
	Allow   bool            // approve what the policy would ask about, inside the sandbox
	Message string          // for the model if denied; for the person who is asked
	Input   json.RawMessage // replaces the arguments, in the form that hooks know; validated again
	Context []string        // added to the model's context
}

// Request is a call that a person is about to be asked about.
type Request struct {
	Call
	Description string // why a person is asked
	Retry       bool   // the call ran, and the sandbox denied something
}

// Permission is the answer of hooks instead of a person. The zero value leaves the question to the next one.
type Permission struct {
	Allow, Deny bool
	Message     string // for the model if denied
}

// Review is the answer of hooks after a call. The zero value leaves the result as it is.
type Review struct {
	Replace *string // text that the model sees instead
	Context []string
}

// Hooks is notified of calls. Its methods may be called concurrently.
type Hooks interface {
	PreToolUse(ctx context.Context, c Call) (Verdict, error)
	PermissionRequest(ctx context.Context, r Request) (Permission, error)
	PostToolUse(ctx context.Context, c Call, r *contract.Result) (Review, error)
}

// None implements [Hooks] without any hooks.
type None struct{}

// PreToolUse implements [Hooks].
func (None) PreToolUse(context.Context, Call) (Verdict, error) { return Verdict{}, nil }

// PermissionRequest implements [Hooks].
func (None) PermissionRequest(context.Context, Request) (Permission, error) {
	return Permission{}, nil
}

// PostToolUse implements [Hooks].
func (None) PostToolUse(context.Context, Call, *contract.Result) (Review, error) {
	return Review{}, nil
}

// Output is the answer of hooks around a turn. The zero value lets it continue.
type Output struct {
	Context []string // added to the model's context
	Stop    bool     // do not do what was about to happen
	Reason  string   // for people
}
