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
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire"
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
	SealedPart   = contract.SealedPart
	ArtifactRef  = contract.ArtifactRef
)

// Secret is a sensitive config value.
type Secret = configblock.Secret

// Plugin is everything that a tool plugin is. Name and Version are required.
type Plugin struct {
	Name, Version, Description string
	Instructions               string // for the model, at most 8192 bytes
	// Config points to a struct with the tags of sdk/configblock; nil: the plugin takes no configuration. Configure fills
	// it while no call, assessment or command runs, so that handlers may read it as it is. What runs in the background
	// copies what it needs in Configured.
	Config   any
	Tools    []Tool // there whatever the configuration says; Env.SetTools replaces them later
	Commands []Command
	// Capabilities are what it asks the host for: "spawn", "ask", "call-tools", "sample", "secrets", "state". The host refuses what
	// is not named here. "secrets" is added where Config has a secret.
	Capabilities []string
	Limits       contract.Limits

	// Configured runs after Config was filled, before any call, and again whenever the block changes. ctx ends with the
	// request; what goes on after it belongs under Env.Context. Its errors are shown to the user: those of
	// configblock.Invalid, and any *contract.Diagnostic, at their line. After an error the plugin goes on with its earlier
	// configuration, if there was one.
	// A [contract.Diagnostic] that is a warning does not keep the plugin from working: people read it once in each thread.
	Configured func(ctx context.Context, env *Env) error
	// Thread runs for each thread, as long as the host listens to it; then ctx ends and Thread returns soon. Returning
	// earlier is fine, an error ends the stream.
	Thread func(ctx context.Context, t *Thread) error
	// StopSession ends one session. Unknown ids are no error.
	StopSession func(ctx context.Context, threadID, sessionID string) error
	// EndThread releases what is held for a thread. Unknown ids are no error.
	EndThread func(ctx context.Context, threadID string) error
	// Adopt takes over what earlier processes of the plugin left running for a thread with Cmd.Keep, before anything else is
	// done for that thread: a plugin that crashed, or was replaced, costs no session then. It starts each Cmd, and resumes
	// the sessions with Thread.ResumeSession. ctx bounds it; what goes on after it belongs under Env.Context. nil: the
	// plugin's sessions end with its process. With Adopt, Close must let them be: the host ends those that nobody wants.
	Adopt func(ctx context.Context, a *Adoption) error
	// Drain is told that nothing new will come. ctx ends with the deadline.
	Drain func(ctx context.Context) error
	// Close runs once before the process ends, while calls that still run are being cancelled. ctx ends with the grace.
	Close func(ctx context.Context) error
}

// Main serves the plugin and ends the process; it never returns. `--describe` prints the manifest, `--version` name and
// version. Call it before anything writes to standard output.
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
