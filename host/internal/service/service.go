// Package service implements what the host does for plugins: the HostService of the contract, one server for each plugin process.
//
// It owns: which plugin may request what (with the token of its own call, for its own processes and its own keys), and the
// conversion between the wire and the packages that do the work. It must not know: any plugin by name, and how a socket is served.
//
// Start with [Services.For].
package service

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Thread is the part of a thread that calls of its plugins can use.
type Thread interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Approvals() *approval.Broker
}

// Sampler asks the model once on behalf of a call.
type Sampler func(ctx context.Context, c orchestrate.Call, r *llm.Request) (*Sampled, error)

// Sampled is the model's answer.
type Sampled struct {
	Message *llm.Message
	Usage   llm.Usage
	Reason  llm.FinishReason
	Model   string // as the configuration names it
}

// Config is what the services use. All fields are required unless they say otherwise.
type Config struct {
	Tokens   *orchestrate.Tokens
	Launcher *launch.Launcher
	Store    *store.Store
	State    func(context.Context) (*pluginstate.Store, error) // opens the store on the first call
	Threads  func(event.ThreadID) (Thread, bool)
	Root     func(event.ThreadID) event.ThreadID // the first of the running threads above one; itself if there is none
	Redactor *redact.Redactor                    // removes secrets from events; nil: nothing is removed
	Sample   Sampler
	Secrets  func(plugin, handle string) (Secret, bool)
	Stored   Vault     // secrets that plugins store
	Commands *Commands // that are running
	// CommandGrant returns what the processes of a plugin's command may do, and their folder. changes: the command has side effects.
	CommandGrant func(label string, changes bool) (g launch.Grant, dir string, err error)
	// Declared returns the process that a plugin's block declares under a name. The error says why it may not be started.
	Declared func(label, name string) (Declared, error)
	// Denied returns the hosts, with their ports, that the last declared process of an owner was denied.
	Denied func(launch.Owner) []string
	// NetworkMode returns the mode of the network settings that a plugin's block has for its processes; empty: it has none.
	NetworkMode func(label string) string
	// JudgeHost decides about a connection of the processes of a plugin in a thread, of an owner without a call. OpenHost lets those with
	// quiet_network connect to a host, until the last of them has ended.
	JudgeHost func(context.Context, launch.Owner, network.Request) network.Decision
	OpenHost  func(launch.Owner, network.Request)
	// Folders returns the data and the cache folder of a plugin, without symbolic links.
	Folders func(label string) []string
	// MakeRoom stops an earlier process of the plugin without waiting. It returns false if the caller is not the plugin's current
	// process. Earlier reports whether an earlier process is running.
	MakeRoom func(context.Context, plugin.Identity) bool
	Earlier  func(plugin.Identity) bool
	// Environment returns the environment of processes before the plugin's changes, UserEnvironment that of programs that the
	// configuration names: a program that prints a secret may need another secret from its environment.
	Environment, UserEnvironment func() []string
	// Elicits reports whether plugins may ask questions under the policy granular; nil: they may.
	Elicits func() bool
	// Granted returns an error if a plugin's process may not use a capability of the contract.
	Granted func(id plugin.Identity, capability string) error
	// Starts returns an error if a plugin may not start a program. limited reports whether the plugin's block lists the permitted
	// programs.
	Starts func(label string, argv []string) (limited bool, err error)
	// Quota returns a plugin's limits. Exceeded is called once for each limit that a plugin reaches. nil: there are no limits.
	Quota    func(label string) Quota
	Exceeded func(label, setting string, limit int64)
	// Permit lets a plugin's process reach the hosts of effects until revoke is called. Reaches reports whether its block permits it to
	// reach a host.
	Permit  func(label string, hosts []contract.NetworkEffect) (revoke func())
	Reaches func(label string, host contract.NetworkEffect) bool
	// Known is called with every secret that a plugin gets or stores.
	Known func(values ...string)
}

// Services creates the servers of plugin processes.
type Services struct {
	cfg      Config
	programs *programs
	spent    *spent
	// redirects are the addresses that plugins have reserved.
	redirects *redirects
}

// New returns services.
func New(cfg Config) *Services {
	run := func(ctx context.Context, p Program) (string, error) { return runProgram(ctx, &cfg, p) }
	return &Services{cfg, &programs{run: run}, newSpent(), &redirects{}}
}

// For returns the server for one plugin process. Its rights are those of the process's label and generation.
func (s *Services) For(id plugin.Identity) gantryv1.HostServiceServer {
	return &server{Config: s.cfg, programs: s.programs, spent: s.spent, redirects: s.redirects, id: id}
}

type server struct {
	gantryv1.UnimplementedHostServiceServer
	Config
	programs  *programs
	spent     *spent
	redirects *redirects
	id        plugin.Identity
}

// The capabilities that requests need. Three kinds of requests work without one: custom events, artifacts, and Authorize, which
// only asks.
const (
	capSpawn     = "spawn"
	capAsk       = "ask"
	capCallTools = "call-tools"
	capSample    = "sample"
	capSecrets   = "secrets"
	capState     = "state"
)

// may returns an error if the plugin's manifest does not declare a capability or the user has not granted it.
func (s *server) may(capability string) error {
	if err := s.Granted(s.id, capability); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

// live finds the call for a token.
func (s *server) live(token string) (*orchestrate.Live, error) {
	l, ok := s.Tokens.Lookup(s.id.Label, token)
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "the call token is not valid: it is valid until the call's result, and only for the plugin that got it")
	}
	return l, nil
}

// join finds the call for a token and joins the contexts of the rpc and the call: the work ends with either of them, and the call
// does not end before the work.
func (s *server) join(ctx context.Context, token string) (*orchestrate.Live, context.Context, func(), error) {
	l, err := s.live(token)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, done, err := l.Join(ctx)
	if err != nil {
		return nil, nil, nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return l, ctx, done, nil
}

// Ask implements the rpc. Within a call, it asks in the thread; within a command, the person who ran it.
func (s *server) Ask(ctx context.Context, r *gantryv1.AskRequest) (*gantryv1.AskResponse, error) {
	if err := s.may(capAsk); err != nil {
		return nil, err
	}
	if cmd, ok := s.Commands.lookup(s.id.Label, r.GetCallToken()); ok {
		return s.askAbout(ctx, r, approval.Question{Plugin: s.id.Label}, cmd.ask)
	}
	l, ctx, done, err := s.join(ctx, r.GetCallToken())
	if err != nil {
		return nil, err
	}
	defer done()
	thread, ok := s.Threads(l.Call.Thread)
	if !ok {
		return nil, status.Error(codes.FailedPrecondition, "the thread has ended")
	}
	if l.Call.Approval == policy.Never || l.Call.Approval == policy.Granular && s.Elicits != nil && !s.Elicits() {
		return declined("the approval policy does not let plugins ask"), nil
	}
	defer l.Wait()()
	return s.askAbout(ctx, r, approval.Question{Plugin: s.id.Label, Turn: l.Call.Turn, Call: l.Call.ID}, thread.Approvals().Ask)
}

// CallTool implements the rpc. It calls another tool of the thread through the whole pipeline.
func (s *server) CallTool(ctx context.Context, r *gantryv1.CallToolRequest) (*gantryv1.CallToolResponse, error) {
	if err := s.may(capCallTools); err != nil {
		return nil, err
	}
	l, ctx, done, err := s.join(ctx, r.GetCallToken())
	if err != nil {
		return nil, err
	}
	defer done()
	result, err := l.CallTool(ctx, r.GetNamespace(), r.GetTool(), convert.InputFromProto(r.GetInput()))
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.CallToolResponse{Result: convert.ResultToProto(result)}, nil
}

// ListTools implements the rpc.
func (s *server) ListTools(_ context.Context, r *gantryv1.ListToolsRequest) (*gantryv1.ListToolsResponse, error) {
	if err := s.may(capCallTools); err != nil {
		return nil, err
	}
	l, err := s.live(r.GetCallToken())
	if err != nil {
		return nil, err
	}
	out := &gantryv1.ListToolsResponse{}
	for _, e := range l.Call.Tools.CodeTools(l.Call.Traits) {
		out.Tools = append(out.Tools, convert.DescriptorToProto(e.Descriptor))
	}
	return out, nil
}

// Sample implements the rpc.
func (s *server) Sample(ctx context.Context, r *gantryv1.SampleRequest) (*gantryv1.SampleResponse, error) {
	if err := s.may(capSample); err != nil {
		return nil, err
	}
	l, ctx, done, err := s.join(ctx, r.GetCallToken())
	if err != nil {
		return nil, err
	}
	defer done()
	req, err := convert.RequestFromProto(r.GetRequest())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	a, err := s.Config.Sample(ctx, l.Call, req)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return &gantryv1.SampleResponse{Error: convert.ErrorToProto(e)}, nil
	}
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.SampleResponse{
		Message: convert.MessageToProto(*a.Message), Usage: convert.UsageToProto(a.Usage), Reason: convert.FinishReasonToProto(a.Reason), Model: a.Model,
	}, nil
}

// Emit implements the rpc. With the token of a call, the event belongs to the call's turn; with that of a thread, to no turn.
func (s *server) Emit(ctx context.Context, r *gantryv1.EmitRequest) (*gantryv1.EmitResponse, error) {
	var turn event.TurnID
	id, ok := s.Tokens.LookupThread(s.id.Label, r.GetToken())
	if !ok {
		l, joined, done, err := s.join(ctx, r.GetToken())
		if err != nil {
			return nil, err
		}
		defer done()
		ctx, id, turn = joined, l.Call.Thread, l.Call.Turn
	}
	thread, ok := s.Threads(id)
	if !ok {
		return nil, status.Error(codes.FailedPrecondition, "the thread has ended")
	}
	if !validJSON(r.GetPayloadJson()) {
		return nil, status.Error(codes.InvalidArgument, "payload_json is not JSON")
	}
	if r.GetDurable() {
		if err := s.spend(limitEvents, len(r.GetKind())+len(r.GetPayloadJson())+eventOverhead); err != nil {
			return nil, err
		}
	}
	_, err := thread.Publish(ctx, turn, event.PluginEvent{
		Plugin: s.id.Label, Name: r.GetKind(), Payload: s.Redactor.JSON(r.GetPayloadJson()), Transient: !r.GetDurable(),
	})
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.EmitResponse{}, nil
}

// statusOf maps errors of the host to status codes.
func statusOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}
