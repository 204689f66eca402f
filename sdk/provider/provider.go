// Package provider is the API for writing provider plugins: programs that make the models of one vendor available to gantry.
//
// It owns: the manifest of such a plugin, its configuration, draining and stopping, and forwarding events from the vendor's
// stream to the host. It must not know: any vendor's protocol, the turn loop, how the process is started and connected
// (sdk/wire).
//
// Start with [Plugin] and [Main]:
//
//	func main() {
//		provider.Main(provider.Plugin{
//			Name: "echo", Version: "1.0.0", Description: "Repeats the user's message.",
//			Config: &config{},
//			New: func(ctx context.Context, env provider.Env) (provider.Provider, error) {
//				return &echo{config: env.Config.(*config)}, nil
//			},
//		})
//	}
package provider

import (
	"context"
	"encoding/json"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Plugin describes a provider plugin. Only New may depend on time, place or configuration.
type Plugin struct {
	Name        string // lower-case letters, digits and dashes
	Version     string // semantic version
	Description string // one sentence for people
	// Config is a pointer to a struct with the tags of sdk/configblock, or nil. It serves as a template; each Configure
	// fills a new copy.
	Config any
	// Capabilities lists the capabilities that the plugin requests, usually "network". "secrets" is added automatically if
	// the configuration contains any.
	Capabilities []string
	Commands     []Command
	Limits       contract.Limits
	// New creates the provider from its configuration. ctx ends when New returns; anything that lives longer needs its own
	// context, which Close must end. If the error is a *contract.Diagnostic, or several joined, it is shown at its place in
	// the user's file. New is called again when the configuration changes; the previous provider is closed when its last
	// request has ended.
	New func(ctx context.Context, env Env) (Provider, error)
}

// Command is a command that the plugin offers to users in addition to its models, such as login, logout or status.
type Command struct {
	Name        string // lower-case letters, digits and dashes
	Description string
	InputSchema json.RawMessage // JSON Schema of an object; empty: no input
	SideEffects bool            // changes something outside the plugin's process; the host runs it only when the user agrees
	// Run returns JSON. The text of an error is shown to the user. [Host.Ask] needs its ctx.
	Run func(ctx context.Context, env Env, input json.RawMessage) (json.RawMessage, error)
}

// Env contains what a provider may know about its host.
type Env struct {
	Label    string // of the user's block; one binary may serve several
	DataDir  string // lasts
	CacheDir string // may be emptied at any time
	Host     *Host  // never nil
	Logger   hclog.Logger
	Config   any // a pointer of the type of Plugin.Config, filled; nil without one
}

// Provider answers requests. Its methods are called concurrently. If it has a Close() error method, that is called once,
// when no request is running and no more will follow.
type Provider interface {
	// Models lists the models that the provider offers with its configuration.
	Models(ctx context.Context) ([]llm.ModelRow, error)
	// Prepare returns the request that Stream would send, with secrets redacted. It sends nothing.
	Prepare(ctx context.Context, r *llm.Request) (*Prepared, error)
	// Stream executes one request and passes its events to emit, one at a time and in order; the last one is [llm.Finish].
	// If it can't finish, it returns an error, preferably an *[llm.Error], which the host receives as the last event. If
	// emit returns an error, the receiver is gone: return. ctx ends at the latest with Stream.
	Stream(ctx context.Context, r *StreamRequest, emit func(llm.Event) error) error
}

// Finder is implemented by providers that know models in addition to those that they list, or that match names by
// similarity.
type Finder interface {
	// Find returns the row of a model under the requested id. ok is false if the provider does not know the model.
	Find(ctx context.Context, id string) (_ llm.ModelRow, ok bool, _ error)
}

// StreamRequest is a request for [Provider].Stream.
type StreamRequest struct {
	*llm.Request
	// MaxAttempts limits the attempts before the first byte of an answer. It is never 0.
	MaxAttempts int
	// ThreadID and TurnID identify the thread and turn of the request; for logs.
	ThreadID, TurnID string
}

// DefaultMaxAttempts is the number of attempts if the host doesn't specify one.
const DefaultMaxAttempts = 5

// Prepared is an HTTP request as it would be sent, with secrets redacted.
type Prepared struct {
	Method, URL string
	Headers     []Header
	Body        []byte
}

// Header is one HTTP header.
type Header struct{ Name, Value string }

// Main serves the plugin and exits the process. It uses one processor: see [wire.OneProcessor].
func Main(p Plugin) {
	denyInspection()
	wire.OneProcessor()
	os.Exit(run(context.Background(), p, wire.ServeConfig{}))
}
