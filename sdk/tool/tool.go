// Package tool is what the author of a tool plugin writes against: declare tools with typed arguments, handle their
// calls, serve.
//
// It owns: the plugin's side of the tool contract, that is the order of a call's events, coalescing and caps of output,
// cancellation, the pausing clock, draining, and the translation of errors and panics into results. It must not know:
// how the host decides, stores or shows anything, or how bytes travel (sdk/wire).
//
// Start with [Plugin], [New] and [Call].
package tool

import (
	"context"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Result is the answer of a call.
type Result = contract.Result

// The parts of a result.
type (
	Part         = contract.Part
	TextPart     = contract.TextPart
	MediaPart    = contract.MediaPart
	ArtifactPart = contract.ArtifactPart
	JSONPart     = contract.JSONPart
	ArtifactRef  = contract.ArtifactRef
)

// Secret is a sensitive config value.
type Secret = configblock.Secret

// Plugin is everything a tool plugin is. Name and Version are required.
type Plugin struct {
	Name, Version, Description string
	Instructions               string // for the model; at most 8192 bytes
	Config                     any    // pointer to a struct with tags as in sdk/configblock; nil: no configuration
	Tools                      []Tool // there whatever the configuration says; Env.SetTools changes them later
	Commands                   []Command
	Capabilities               []string // "spawn", "network", "sample", "call-tools", "ask", "secrets", "state", ...
	Limits                     contract.Limits
	Skills                     []contract.Skill
	Features                   []string
	Handover                   bool // sessions can be handed over to the next generation

	// Configured runs after Config was filled, before any call, and again whenever the block changes. Errors made by
	// [configblock.Invalid], or a *contract.Diagnostic, are shown at their line of the user's file.
	Configured func(ctx context.Context, env *Env) error
	// Thread runs as long as the host keeps a thread open; ctx ends with it.
	Thread func(ctx context.Context, t *Thread) error
	// StopSession ends one session. Unknown ids are no error.
	StopSession func(ctx context.Context, threadID, sessionID string) error
	// EndThread releases what is held for a thread. Unknown ids are no error.
	EndThread func(ctx context.Context, threadID string) error
	// Drain is told that nothing new comes; ctx ends with the deadline.
	Drain func(ctx context.Context) error
	// Close runs once before the process ends.
	Close func(ctx context.Context) error
}

// Main serves the plugin and ends the process. It never returns.
func Main(p Plugin) { panic("tool: not there yet") }

// Text makes a result of one text part for model and user.
func Text(s string) *Result { return contract.Text(s) }
