// Package hook runs programs of the user's that see what happens in a thread and may stop it.
//
// It owns: which hooks there are and which of them may run, what they are told and what their answers mean, their bounds, and how
// the answers of several become one. It must not know: which tools exist, how a turn or a call goes on, which file format the
// host's configuration has.
//
// Start with [Engine]. What others need of it are [Hooks], around a call, and the methods of [Turn], around a turn.
package hook

import (
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Call is what a hook is told about a call.
type Call struct {
	Thread, Turn, ID string
	Tool             string   // the hook name of the tool
	Aliases          []string // further names it matches under
	Input            json.RawMessage
	Cwd              string
}

// Verdict is what hooks answer before a call. The zero value lets it pass.
type Verdict struct {
	Deny    bool
	Stop    bool            // denied, and the turn ends with it
	Ask     bool            // a person is asked, also where the policy would not
	Allow   bool            // what the policy would ask about inside of the sandbox is approved
	Message string          // for the model when denied; for the person who is asked
	Input   json.RawMessage // replaces the arguments, under the names that hooks know; validated again
	Context []string        // further text for the model
}

// Request is a call that a person would be asked about.
type Request struct {
	Call
	Description string // why it is asked about
	Retry       bool   // the call ran, and the sandbox stopped it
}

// Permission is what hooks answer in a person's place. The zero value leaves the question to the next one.
type Permission struct {
	Allow, Deny bool
	Message     string // for the model, when denied
}

// Review is what hooks answer after a call. The zero value leaves the result alone.
type Review struct {
	Replace *string // the text that the model sees instead
	Context []string
}

// Hooks sees calls. The methods may be called concurrently.
type Hooks interface {
	PreToolUse(ctx context.Context, c Call) (Verdict, error)
	PermissionRequest(ctx context.Context, r Request) (Permission, error)
	PostToolUse(ctx context.Context, c Call, r *contract.Result) (Review, error)
}

// None has no hooks.
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

// Output is what hooks answer around a turn. The zero value lets it go on.
type Output struct {
	Context []string // further text for the model
	Stop    bool     // what was about to happen does not
	Reason  string   // for people
}
