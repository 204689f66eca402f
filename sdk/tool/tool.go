// Package tool is the API for writing tool plugins: declare tools with typed arguments, handle their calls, serve.
//
// It owns: the plugin's side of the tool contract, that is, the order of a call's events, coalescing and limiting output,
// cancellation, the pausable clock, draining, and the translation of errors and panics into results. It must not know: how
// the host decides, stores or displays anything, or how bytes are transferred (sdk/wire).
//
// Start with [Plugin], [New] and [Call].
package tool

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Result is the result of a call.
type Result = contract.Result

// The parts of a result.
type (
	Part         = contract.Part
	TextPart     = contract.TextPart
	MediaPart    = contract.MediaPart
	ArtifactPart = contract.ArtifactPart
	JSONPart     = contract.JSONPart
	SealedPart   = contract.SealedPart
	ArtifactRef  = contract.ArtifactRef
)

// Secret is a sensitive configuration value.
type Secret = configblock.Secret

// Plugin describes a tool plugin. Name and Version are required.
type Plugin struct {
	Name, Version, Description string
	Instructions               string // for the model, at most 8192 bytes
	// Config is a pointer to a struct with the tags of sdk/configblock; nil: the plugin has no configuration. Configure
	// fills it while no call, assessment or command runs, so handlers can read it without locking. Background work must
	// copy what it needs in Configured.
	Config   any
	Tools    []Tool // there whatever the configuration says; Env.SetTools replaces them later
	Commands []Command
	// Capabilities lists the host services that the plugin needs: "spawn", "ask", "call-tools", "sample", "secrets",
	// "state". The host refuses all others. "secrets" is added automatically if Config has a secret.
	Capabilities []string
	Limits       contract.Limits

	// Configured runs after Config has been filled, before any call, and again whenever the block changes. ctx ends with
	// the request; use Env.Context for work that continues after it. Errors are shown to the user; those of
	// configblock.Invalid, and any *contract.Diagnostic, with their line. After an error, the plugin continues with its
	// previous configuration, if there is one. A [contract.Diagnostic] that is a warning does not prevent the plugin from
	// working; it is shown once per thread.
	Configured func(ctx context.Context, env *Env) error
	// Thread runs for each thread as long as the host listens to it; then ctx ends, and Thread should return soon. It may
	// return earlier; an error ends the stream.
	Thread func(ctx context.Context, t *Thread) error
	// View shows a session to a person until ctx ends, which is when the person closes the view; the session continues. It
	// returns when the session has ended, with the reason for the person, who still sees the last frames. For an unknown
	// session it returns [ErrNoSession], and [ErrNoViewKind] if it can't show it as requested. nil: the plugin has no views.
	View func(ctx context.Context, v *View) (reason string, err error)
	// StopSession ends a session. Unknown IDs are not an error.
	StopSession func(ctx context.Context, threadID, sessionID string) error
	// EndThread releases the resources of a thread. Unknown IDs are not an error.
	EndThread func(ctx context.Context, threadID string) error
	// Adopt takes over the sessions that earlier processes of the plugin left running for a thread with Cmd.Keep, before
	// anything else is done for that thread, so that no session is lost if the plugin crashes or is replaced. It starts
	// each Cmd, and resumes the sessions with Thread.ResumeSession. ctx limits it; use Env.Context for work that continues
	// after it. nil: the plugin's sessions end with its process. With Adopt, Close must not end sessions: the host ends
	// those that are no longer needed.
	Adopt func(ctx context.Context, a *Adoption) error
	// Drain is called when no new calls will arrive. ctx ends at the deadline.
	Drain func(ctx context.Context) error
	// Close runs once before the process exits, while running calls are being cancelled. ctx ends with the grace period.
	Close func(ctx context.Context) error
}

// Main serves the plugin and exits the process; it never returns. `--describe` prints the manifest, `--version` the name
// and version. Call it before anything is written to standard output.
func Main(p Plugin) { os.Exit(run(p)) }

func run(p Plugin) int {
	logger := wire.NewLogger(os.Stderr)
	s, err := NewServer(p, logger)
	if err != nil {
		fmt.Fprintf(os.Stderr, "plugin %q can't be served: %v\n", p.Name, err)
		return 1
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s.onStop = stop
	return wire.Serve(ctx, wire.ServeConfig{
		Manifest:        s.Manifest,
		Register:        func(g *grpc.Server) { s.Register(g) },
		Stop:            func(ctx context.Context) { _ = s.Close(ctx) },
		Logger:          logger,
		MaxMessageBytes: int(p.Limits.MaxMessageBytes),
	})
}
