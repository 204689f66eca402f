package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// DeniedError is a denial by the policy, a hook, a reviewer or the user. Its text is intended for the model: a handler can
// return the error unchanged.
type DeniedError struct{ Denial string }

// Error implements error.
func (e *DeniedError) Error() string { return e.Denial }

// Authorization is a request for effects that become known only during a call.
type Authorization struct {
	Effects        []contract.Effect
	Reason         string   // for the user
	Discriminators []string // further parts of the key under which an approval is remembered
}

// Scope is how long the answer to an authorization is remembered: the same request in that time gets the same answer without a question.
type Scope string

// The scopes.
const (
	ScopeOnce    Scope = "once"    // not at all
	ScopeTurn    Scope = "turn"    // at least until the turn ends
	ScopeSession Scope = "session" // as long as the thread runs
	ScopeAlways  Scope = "always"  // by a rule of the user
)

// Authorize requests permission for effects that become known only during the call. A denial is a *[DeniedError]. Until the call ends,
// the plugin can also connect to the hosts of permitted network effects, at addresses of the internet; see [Env.DialContext].
func (c *Call) Authorize(ctx context.Context, effects ...contract.Effect) error {
	return c.AuthorizeWith(ctx, Authorization{Effects: effects})
}

// AuthorizeWith is Authorize with a reason and discriminators.
func (c *Call) AuthorizeWith(ctx context.Context, a Authorization) error {
	_, err := c.AuthorizeScope(ctx, a)
	return err
}

// AuthorizeScope is AuthorizeWith that returns how long the permission is remembered.
func (c *Call) AuthorizeScope(ctx context.Context, a Authorization) (Scope, error) {
	return c.env.authorize(ctx, c.start.CallToken, a)
}

// Authorize asks the person who ran the command whether the plugin may connect to hosts until the command ends: all effects are network
// effects of single hosts. A denial is a *[DeniedError]. What the plugin's block permits is not asked about.
func (c *CommandCall) Authorize(ctx context.Context, reason string, hosts ...contract.NetworkEffect) error {
	a := Authorization{Reason: reason}
	for _, h := range hosts {
		a.Effects = append(a.Effects, h)
	}
	_, err := c.env.authorize(ctx, c.token, a)
	return err
}

func (e *Env) authorize(ctx context.Context, token string, a Authorization) (Scope, error) {
	resp, err := e.host().Authorize(ctx, &gantryv1.AuthorizeRequest{
		CallToken: token, Effects: convert.EffectsToProto(a.Effects), Reason: a.Reason, Discriminators: a.Discriminators,
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("authorize: %w", err)
	case resp.GetGranted():
		return Scope(resp.GetScope()), nil
	case resp.GetDenial() == "":
		return "", &DeniedError{Denial: "not allowed"}
	}
	return "", &DeniedError{Denial: resp.GetDenial()}
}

// Question is a question to the user: a choice if Options is set, a form if FormSchema is set, a URL if URL is set. The
// answer is never an approval.
type Question struct {
	// Source is in whose name the plugin asks, such as a server that it is connected to: at most 128 bytes. Empty: its own.
	Source         string
	Title, Message string
	Options        []string
	// FormSchema is the JSON Schema of an object of strings, numbers, integers, booleans, choices and arrays of choices.
	FormSchema json.RawMessage
	URL        string
	// Redirect makes the host listen on loopback for the redirect of the browser. It replaces "{redirect_uri}" in URL by its own
	// percent-encoded address. RedirectPort is the port to listen on; 0: any.
	Redirect     bool
	RedirectPort int
	// RedirectID is the ID of an address that was reserved before, and that URL contains. It is used instead of Redirect.
	RedirectID string
}

// Answer is the answer to a [Question]. If there is none, exactly one of Declined, Dismissed and Cancelled is true.
type Answer struct {
	Declined  bool            // the user said no, or the host did; then Note is set
	Dismissed bool            // the user closed the question without deciding
	Cancelled bool            // the call has ended
	JSON      json.RawMessage // the choice, the form's object, valid under its schema, or the query's object
	Note      string          // why the host declined without the user's decision, such as that there is no one to ask
	// RedirectURI is the address to which the browser was redirected, with Query. The host has compared the parameter state.
	RedirectURI string
	Query       map[string]string
}

// Ask asks the user a question and waits for the answer. The call's clock is paused meanwhile.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	return c.env.ask(ctx, c.start.CallToken, q)
}

// Ask asks the user who runs the command a question and waits for the answer. Needs the capability "ask".
func (c *CommandCall) Ask(ctx context.Context, q Question) (Answer, error) {
	return c.env.ask(ctx, c.token, q)
}

func (e *Env) ask(ctx context.Context, token string, q Question) (Answer, error) {
	req := &gantryv1.AskRequest{
		CallToken: token, Source: q.Source, Title: q.Title, Message: q.Message,
		Options: q.Options, FormSchemaJson: q.FormSchema, Url: q.URL,
		Redirect: q.Redirect, RedirectPort: int32(q.RedirectPort), RedirectId: q.RedirectID,
	}
	switch {
	case len(q.Options) > 0:
		req.Kind = gantryv1.AskKind_ASK_KIND_CHOICE
	case len(q.FormSchema) > 0:
		req.Kind = gantryv1.AskKind_ASK_KIND_FORM
	case q.URL != "":
		req.Kind = gantryv1.AskKind_ASK_KIND_URL
	default:
		return Answer{}, errors.New("ask: the question has neither options, a form nor a URL")
	}
	resp, err := e.host().Ask(ctx, req)
	if err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	switch resp.GetOutcome() {
	case gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED:
	case gantryv1.AskOutcome_ASK_OUTCOME_DECLINED:
		return Answer{Declined: true, Note: resp.GetNote()}, nil
	case gantryv1.AskOutcome_ASK_OUTCOME_DISMISSED:
		return Answer{Dismissed: true}, nil
	default:
		return Answer{Cancelled: true}, nil
	}
	a := Answer{JSON: resp.GetAnswerJson()}
	if req.Kind == gantryv1.AskKind_ASK_KIND_URL && (q.Redirect || q.RedirectID != "") {
		var back struct {
			URI   string            `json:"redirect_uri"`
			Query map[string]string `json:"query"`
		}
		if err := json.Unmarshal(a.JSON, &back); err != nil {
			return Answer{}, fmt.Errorf("ask: invalid answer: %w", err)
		}
		a.RedirectURI, a.Query = back.URI, back.Query
	}
	return a, nil
}

// RedirectAddress chooses the address of [Call.Redirect]. The zero value is any port of 127.0.0.1, with a path that can't be guessed.
type RedirectAddress struct {
	Port int    // 0: any
	Host string // "127.0.0.1", the default, or "localhost"
	Path string // for example "/callback/name"; empty: unguessable
}

// Redirect is an address to which a browser can be redirected.
type Redirect struct {
	ID  string // for [Question.RedirectID]
	URI string // to be registered, and part of the question's URL
}

// Redirect reserves an address on this machine for one question about a URL, until the call ends. Needs the capability "ask".
func (c *Call) Redirect(ctx context.Context, at RedirectAddress) (Redirect, error) {
	return c.env.redirect(ctx, c.start.CallToken, at)
}

// Redirect reserves an address on this machine for one question about a URL, until the command ends. Needs the capability "ask".
func (c *CommandCall) Redirect(ctx context.Context, at RedirectAddress) (Redirect, error) {
	return c.env.redirect(ctx, c.token, at)
}

func (e *Env) redirect(ctx context.Context, token string, at RedirectAddress) (Redirect, error) {
	resp, err := e.host().Redirect(ctx, &gantryv1.RedirectRequest{CallToken: token, Port: int32(at.Port), Host: at.Host, Path: at.Path})
	if err != nil {
		return Redirect{}, fmt.Errorf("reserve an address for the browser's redirect: %w", err)
	}
	return Redirect{ID: resp.GetId(), URI: resp.GetRedirectUri()}, nil
}

// RawText, as the args of [Call.CallTool], is passed unchanged to a freeform tool.
type RawText string

// CallTool runs another tool of the thread, through the same pipeline as any other call. args is a [RawText], or any value
// that marshals to a JSON object.
func (c *Call) CallTool(ctx context.Context, namespace, name string, args any) (*Result, error) {
	var in contract.Input
	if text, ok := args.(RawText); ok {
		in = contract.Input{Text: string(text), Freeform: true}
	} else {
		b, err := json.Marshal(args)
		if err != nil {
			return nil, fmt.Errorf("call tool %q: marshal arguments: %w", name, err)
		}
		in.Arguments = b
	}
	resp, err := c.env.host().CallTool(ctx, &gantryv1.CallToolRequest{
		CallToken: c.start.CallToken, Namespace: namespace, Tool: name, Input: convert.InputToProto(in),
	})
	if err != nil {
		return nil, fmt.Errorf("call tool %q: %w", name, err)
	}
	if r := convert.ResultFromProto(resp.GetResult()); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("call tool %q: the host sent no result", name)
}

// ListTools lists the tools that CallTool can run: those that are not hidden or [ModelOnly], and whose required traits the
// thread's model has.
func (c *Call) ListTools(ctx context.Context) ([]contract.Descriptor, error) {
	resp, err := c.env.host().ListTools(ctx, &gantryv1.ListToolsRequest{CallToken: c.start.CallToken})
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	return convert.DescriptorsFromProto(resp.GetTools()), nil
}

// Sampled is the model's answer.
type Sampled struct {
	Message llm.Message
	Usage   llm.Usage
	Reason  llm.FinishReason
	Model   string // name of the model that answered
}

// Sample sends one request to the model, within the thread's budget. If the answer is incomplete, the error is an
// *[llm.Error].
func (c *Call) Sample(ctx context.Context, req *llm.Request) (*Sampled, error) {
	resp, err := c.env.host().Sample(ctx, &gantryv1.SampleRequest{CallToken: c.start.CallToken, Request: convert.RequestToProto(req)})
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	if resp.GetError() != nil {
		return nil, convert.ErrorFromProto(resp.GetError())
	}
	m, err := convert.MessageFromProto(resp.GetMessage())
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	return &Sampled{Message: m, Usage: convert.UsageFromProto(resp.GetUsage()), Reason: convert.FinishReasonFromProto(resp.GetReason()), Model: resp.GetModel()}, nil
}

// Emit publishes a plugin-defined event in the thread's stream. kind consists of lower-case words separated by dots;
// payload is marshalled to JSON; durable events are stored.
func (c *Call) Emit(ctx context.Context, kind string, payload any, durable bool) error {
	return c.env.emit(ctx, c.start.CallToken, kind, payload, durable)
}
