// Package hook is the seam where users' own rules see a call before and after it runs.
//
// It owns: what a hook is told and what it may answer. It must not know: how hooks are configured or run, which tools
// exist.
//
// Start with [Hooks].
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

// Verdict is what a hook answers before a call. The zero value lets it pass.
type Verdict struct {
	Deny    bool
	Message string          // for the model, when denied
	Input   json.RawMessage // replaces the arguments; validated again
	Context []string        // further text for the model
}

// Review is what a hook answers after a call. The zero value leaves the result alone.
type Review struct {
	Replace *string // the text that the model sees instead
	Context []string
}

// Hooks sees calls. Both methods may be called concurrently.
type Hooks interface {
	PreToolUse(ctx context.Context, c Call) (Verdict, error)
	PostToolUse(ctx context.Context, c Call, r *contract.Result) (Review, error)
}

// None has no hooks.
type None struct{}

// PreToolUse implements [Hooks].
func (None) PreToolUse(context.Context, Call) (Verdict, error) { return Verdict{}, nil }

// PostToolUse implements [Hooks].
func (None) PostToolUse(context.Context, Call, *contract.Result) (Review, error) {
	return Review{}, nil
}
