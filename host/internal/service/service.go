// Package service is what the host does for plugins: the HostService of the contract, one server per plugin process.
//
// It owns: who may ask for what (a call token of the asking plugin, its own processes, its own keys), and the translation
// between the wire and the rooms that do the work. It must not know: any plugin by name, how a socket is served.
//
// Start with [Services.For].
package service

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Thread is what a plugin's call reaches of the thread it works for.
type Thread interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Approvals() *approval.Broker
}

// Sampler asks the model once on behalf of a call.
type Sampler func(ctx context.Context, c orchestrate.Call, r *llm.Request) (*llm.Message, llm.Usage, llm.FinishReason, error)

// Config is what the services work on. All fields are required.
type Config struct {
	Tokens   *orchestrate.Tokens
	Launcher *launch.Launcher
	Store    *store.Store
	State    func(context.Context) (*pluginstate.Store, error) // opened when it is first needed
	Threads  func(event.ThreadID) (Thread, bool)
	Sample   Sampler
	Secrets  func(plugin, handle string) (Secret, bool)
	Stored   Vault     // secrets that plugins store
	Commands *Commands // that run
	// MakeRoom stops an earlier process of the plugin, without waiting; false when the asking one is not the one that is
	// called. Earlier tells whether there is one.
	MakeRoom func(context.Context, plugin.Identity) bool
	Earlier  func(plugin.Identity) bool
	// Environment is what a process starts from before the plugin's changes, UserEnvironment what one does that the
	// configuration names: a program that prints a secret may need another one for that.
	Environment, UserEnvironment func() []string
	// Elicits tells whether plugins' questions are put under the policy granular; nil: they are.
	Elicits func() bool
	// Granted says why a plugin's process may not use a capability of the contract; nil: it may.
	Granted func(id plugin.Identity, capability string) error
	// Starts says why a plugin may not start a program; nil: it may. limited says that its user has named what it may start.
	Starts func(label string, argv []string) (limited bool, err error)
	// Quota is what a plugin may have kept; Exceeded is told of the limit that was reached, once for each of a plugin. nil: there is none.
	Quota    func(label string) Quota
	Exceeded func(label, setting string, limit int64)
	// Known is told every secret that a plugin gets or stores.
	Known func(values ...string)
}

// Services serves plugins.
type Services struct {
	cfg      Config
	programs *programs
	spent    *spent
}

// New makes services.
func New(cfg Config) *Services {
	run := func(ctx context.Context, p Program) (string, error) { return runProgram(ctx, &cfg, p) }
	return &Services{cfg, &programs{run: run}, newSpent()}
}

// For makes the server for one plugin process. What it may do is bound to its label and generation.
func (s *Services) For(id plugin.Identity) gantryv1.HostServiceServer {
	return &server{Config: s.cfg, programs: s.programs, spent: s.spent, id: id}
}

type server struct {
	gantryv1.UnimplementedHostServiceServer
	Config
	programs *programs
	spent    *spent
	id       plugin.Identity
}

// The capabilities of the contract that services are behind. What works without one: events of the plugin's own, artifacts, and
// Authorize, which only ever asks.
const (
	capSpawn     = "spawn"
	capAsk       = "ask"
	capCallTools = "call-tools"
	capSample    = "sample"
	capSecrets   = "secrets"
	capState     = "state"
)

// may refuses what the plugin has not asked for in its manifest, or what its user has not granted.
func (s *server) may(capability string) error {
	if err := s.Granted(s.id, capability); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

// live finds the call that a token stands for.
func (s *server) live(token string) (*orchestrate.Live, error) {
	l, ok := s.Tokens.Lookup(s.id.Label, token)
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "the call token is not valid: it is dead after the call's result, and good for the plugin that it was given to")
	}
	return l, nil
}

// join finds the call that a token stands for and joins the rpc's context with the call's: what is done for a call ends
// with either, and the call does not end before.
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

// Authorize implements the rpc: effects that only show up during a call take the way of any other.
func (s *server) Authorize(ctx context.Context, r *gantryv1.AuthorizeRequest) (*gantryv1.AuthorizeResponse, error) {
	l, ctx, done, err := s.join(ctx, r.GetCallToken())
	if err != nil {
		return nil, err
	}
	defer done()
	denial, err := l.Authorize(ctx, convert.EffectsFromProto(r.GetEffects()), r.GetReason(), r.GetDiscriminators())
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.AuthorizeResponse{Granted: denial == "", Denial: denial, Scope: "once"}, nil
}

// Ask implements the rpc: within a call the thread is asked, within a command who gave it.
func (s *server) Ask(ctx context.Context, r *gantryv1.AskRequest) (*gantryv1.AskResponse, error) {
	if err := s.may(capAsk); err != nil {
		return nil, err
	}
	if cmd, ok := s.Commands.lookup(s.id.Label, r.GetCallToken()); ok {
		return s.askAbout(ctx, r, approval.Question{}, cmd.ask)
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
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DECLINED}, nil
	}
	defer l.Wait()()
	return s.askAbout(ctx, r, approval.Question{Turn: l.Call.Turn, Call: l.Call.ID}, thread.Approvals().Ask)
}

// askAbout fills in a question, asks it, and words the answer for the plugin.
func (s *server) askAbout(ctx context.Context, r *gantryv1.AskRequest, q approval.Question,
	ask func(context.Context, approval.Question) (approval.Answer, error),
) (*gantryv1.AskResponse, error) {
	switch r.GetKind() {
	case gantryv1.AskKind_ASK_KIND_CHOICE:
		q.About = event.QuestionChoice
	case gantryv1.AskKind_ASK_KIND_FORM:
		q.About = event.QuestionForm
	case gantryv1.AskKind_ASK_KIND_URL:
		q.About = event.QuestionURL
	default:
		return nil, status.Error(codes.InvalidArgument, "a question is a choice, a form or a URL")
	}
	if !validJSON(r.GetFormSchemaJson()) {
		return nil, status.Error(codes.InvalidArgument, "form_schema_json is not JSON")
	}
	q.Title, q.Message, q.Options, q.Schema, q.URL = r.GetTitle(), r.GetMessage(), r.GetOptions(), r.GetFormSchemaJson(), r.GetUrl()
	var a approval.Answer
	var err error
	if q.About == event.QuestionURL && r.GetRedirect() {
		a, err = redirected(ctx, ask, q, int(r.GetRedirectPort()))
	} else {
		a, err = ask(ctx, q)
	}
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DECLINED}, nil
	case ctx.Err() != nil:
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_CANCELLED}, nil
	case err != nil:
		return nil, statusOf(err)
	case a.Choice == approval.Deny:
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DECLINED}, nil
	}
	answer := []byte(a.Data)
	if answer == nil {
		answer = jsonString(a.Choice)
	}
	return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED, AnswerJson: answer}, nil
}

// CallTool implements the rpc: another tool of the thread, by the whole way of any call.
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
	for _, e := range l.Call.Tools.Entries() {
		if e.Exposure != contract.ExposureHidden {
			out.Tools = append(out.Tools, convert.DescriptorToProto(e.Descriptor))
		}
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
	m, usage, reason, err := s.Config.Sample(ctx, l.Call, req)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return &gantryv1.SampleResponse{Error: convert.ErrorToProto(e)}, nil
	}
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.SampleResponse{
		Message: convert.MessageToProto(*m), Usage: convert.UsageToProto(usage), Reason: convert.FinishReasonToProto(reason),
	}, nil
}

// Emit implements the rpc. With a call's token the event is the call's turn's, with a thread's it stands between turns, or
// beside the one that runs.
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
		Plugin: s.id.Label, Name: r.GetKind(), Payload: r.GetPayloadJson(), Transient: !r.GetDurable(),
	})
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.EmitResponse{}, nil
}

// statusOf maps our errors to codes, in one place.
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
