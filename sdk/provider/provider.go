// Package provider is for writing a provider plugin: a program that gives gantry the models of one vendor.
//
// It owns: the manifest of such a plugin, its configuration, draining and stopping, and the way of events from the vendor's
// stream to the host. It must not know: any vendor's protocol, the turn loop, how the process is started and reached
// (sdk/wire).
//
// Start with [Plugin] and [Main]:
//
//	func main() {
//		provider.Main(provider.Plugin{
//			Name: "echo", Version: "1.0.0", Description: "Says what it was told.",
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

// Plugin is a provider plugin. Nothing in it but New may depend on time, place or configuration.
type Plugin struct {
	Name        string // lower-case letters, digits and dashes
	Version     string // semantic version
	Description string // one sentence for people
	// Config is a pointer to a struct with the tags of sdk/configblock, or nil. It serves as the pattern; each Configure
	// fills a new one.
	Config any
	// Capabilities are what the plugin wants to be allowed to do, "network" as a rule. "secrets" is added when the
	// configuration has any.
	Capabilities []string
	Commands     []Command
	Limits       contract.Limits
	// New makes the provider from its configuration. ctx ends with it: what shall live longer starts from a context of its
	// own and ends in Close. A *contract.Diagnostic as the error, or several joined, is shown at its place in the user's
	// file. Called again when the configuration changes; the provider before is closed when its last request has ended.
	New func(ctx context.Context, env Env) (Provider, error)
}

// Command is something that the host's user can ask of the plugin beside its models: login, logout, status.
type Command struct {
	Name        string // lower-case letters, digits and dashes
	Description string
	InputSchema json.RawMessage // JSON Schema of an object; empty: no input
	SideEffects bool            // changes something outside the plugin's process; the host runs it only when the user agrees
	// Run answers with JSON. An error's text is shown to the user. With its ctx [Host.Ask] asks the user.
	Run func(ctx context.Context, env Env, input json.RawMessage) (json.RawMessage, error)
}

// Env is what a provider may know of its host.
type Env struct {
	Label    string // of the user's block; one binary may serve several
	DataDir  string // lasts
	CacheDir string // may be emptied at any time
	Host     *Host  // never nil
	Logger   hclog.Logger
	Config   any // a pointer of the type of Plugin.Config, filled; nil without one
}

// Provider answers requests. Its methods are called from several goroutines at once. If it has a Close() error, that is
// called once when no request runs any more and none will come.
type Provider interface {
	// Models lists what the provider offers under its configuration.
	Models(ctx context.Context) ([]llm.ModelRow, error)
	// Prepare returns the request that Stream would send, secrets redacted, and sends nothing.
	Prepare(ctx context.Context, r *llm.Request) (*Prepared, error)
	// Stream runs one request and hands its events to emit, one at a time and in order, the last being [llm.Finish]. When
	// it can't finish it returns an error, an *[llm.Error] where there is more to say than a text, and the host hears it as
	// the last event. emit fails when nobody listens any more; return then. ctx ends at the latest with Stream.
	Stream(ctx context.Context, r *StreamRequest, emit func(llm.Event) error) error
}

// Finder is implemented by a provider that knows models beyond those that it lists, or by names that only resemble theirs.
type Finder interface {
	// Find returns the row of a model under the id that was asked for. ok is false when the provider does not know it.
	Find(ctx context.Context, id string) (_ llm.ModelRow, ok bool, _ error)
}

// StreamRequest is a request to run.
type StreamRequest struct {
	*llm.Request
	// MaxAttempts bounds the tries before the first byte of an answer. Never 0.
	MaxAttempts int
	// ThreadID and TurnID say whom the request is for; for logs.
	ThreadID, TurnID string
}

// DefaultMaxAttempts is how often a request is tried when the host doesn't say.
const DefaultMaxAttempts = 5

// Prepared is an HTTP request as it would be sent, secrets redacted.
type Prepared struct {
	Method, URL string
	Headers     []Header
	Body        []byte
}

// Header is one HTTP header.
type Header struct{ Name, Value string }

// Main serves the plugin and ends the process. It uses one processor: see [wire.OneProcessor].
func Main(p Plugin) {
	keepOut()
	wire.OneProcessor()
	os.Exit(run(context.Background(), p, wire.ServeConfig{}))
}
