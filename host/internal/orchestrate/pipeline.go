// Package orchestrate is the pipeline that every tool call passes, from the model's request to the result that the model reads.
//
// It owns: the order of the stages, the gate, the treatment of denials and aborts, call tokens, and the only place where output is
// truncated for the model. It must not know: any tool or plugin by name, how a plugin is reached, how events are stored, how a
// question is shown.
//
// Start with [Pipeline.Dispatch]; [Pipeline.pass] defines the order of the stages. [Deps] has the interfaces that they use.
package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// ToolBackend runs the tools of one plugin, or one call of a host tool.
type ToolBackend interface {
	Assess(ctx context.Context, r contract.AssessRequest) (*contract.Assessment, error)
	Call(ctx context.Context, start contract.CallStart, ctl tool.Control, sink func(contract.CallEvent)) (*contract.Result, error)
}

// Journal is the thread's event stream. Publish appends events in order; Barrier waits until they are committed up to a sequence number.
type Journal interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Barrier(ctx context.Context, seq uint64) error
}

// Approver asks the user, and remembers approvals for the turn and the session by their keys.
type Approver interface {
	Ask(ctx context.Context, q approval.Question) (approval.Answer, error)
	Allowed(turn event.TurnID, keys []string) bool
	Allow(keys []string)
	AllowTurn(turn event.TurnID, keys []string)
}

// Rulebook writes rules that answer questions permanently.
type Rulebook interface {
	// Offer returns the rule for commands that begin with these words.
	Offer(prefixes [][]string) event.RuleOffer
	// OfferHost returns the rule for a host and a protocol of the network proxy; nil: no rule would allow it without a question.
	OfferHost(protocol, host string) *event.RuleOffer
	// OfferTool returns the rule for a tool, or, if effects are actions of services only, the rules for these. It applies as long as the
	// tool's descriptor has this digest.
	OfferTool(plugin, tool, descriptor string, effects []contract.Effect) event.RuleOffer
	// Write adds a rule to the user's rules.
	Write(ctx context.Context, o event.RuleOffer) error
}

// Reviewer answers questions in the user's place. If ok is false, the question goes to the user, and the ruling's message says why. An
// error is a refusal.
type Reviewer interface {
	Review(ctx context.Context, r ReviewRequest) (a Ruling, ok bool, err error)
}

// ReviewRequest is a question to a reviewer.
type ReviewRequest struct {
	Question    approval.Question
	Tool        string
	Input       contract.Input
	Cwd         string
	Sandbox     string
	Unsandboxed bool          // the call requests to run outside of the sandbox
	Retry       bool          // the call ran, and the sandbox stopped it
	History     []llm.Message // the conversation before the call
}

// Ruling is a reviewer's answer.
type Ruling struct {
	approval.Answer
	Message string // for the model, unless it is an approval
}

// Policy decides whether a call runs, is refused, or needs an approval.
type Policy func(policy.Request) policy.Decision

// Granter determines what the processes of a call may do.
type Granter interface {
	// Grant may refuse; its error is for the model and the user.
	Grant(ctx context.Context, r GrantRequest) (launch.Grant, error)
	// Writable reports whether a call may write an absolute path. The request has no escalation.
	Writable(r GrantRequest, path string) bool
	// Resolve returns permissions with paths in the form in which they can be granted. Its error is for the model.
	Resolve(cwd string, p policy.Permissions) (policy.Permissions, error)
}

// GrantRequest is a request for the grant of one attempt of a call.
type GrantRequest struct {
	Plugin     string // whose processes they are
	Sandbox    string
	Cwd        string
	Effects    []contract.Effect
	Escalation *contract.Escalation // approved, or nil
	Permitted  policy.Permissions   // granted before the call
	Attempt    uint32
}

// Retry decides whether a call that the sandbox stopped may run again with a wider grant; again is nil if not. ask says that the user
// has to approve it.
type Retry func(policy.Request, *contract.Result) (again *contract.Escalation, ask bool)

// NoRetry is a [Retry] that never allows another attempt.
func NoRetry(policy.Request, *contract.Result) (*contract.Escalation, bool) { return nil, false }

// Processes ends the processes that a call has left running.
type Processes interface {
	EndCall(ctx context.Context, owner launch.Owner) error
}

// Files backs up the files that calls may change, and finds out what they have changed.
type Files interface {
	// Before backs up the files that the call may write. Its event is committed with the call's start; nil: there are none. After an
	// error the call is not started.
	Before(ctx context.Context, call event.CallID, effects []contract.Effect, item contract.Item) (*event.FilesKept, error)
	// After returns what the call has changed, and adds the stored contents to its item; nil: there is nothing to report.
	After(ctx context.Context, call event.CallID, item *event.Item) *event.FilesChanged
	// Diff returns the turn's net diff so far; nil: there is none.
	Diff(ctx context.Context) *event.TurnDiff
}

// Deps are the parts that the pipeline uses. All are required but Reviewer, Rulebook, Permits, Denial, Keep, HostTools, BuiltIn, Tool, Files,
// Control and Redact.
type Deps struct {
	Hooks    hook.Hooks
	Policy   Policy
	Reviewer Reviewer
	Approver Approver
	Rulebook Rulebook
	Permits  Permits
	Granter  Granter
	Journal  Journal
	Retry    Retry
	// Denial finds out from a command's output what its grant kept it from doing; it returns nil if it can't.
	Denial func(g launch.Grant, cwd, text string) *event.Denial
	// Keep stores an output that was truncated for the model where commands of the thread can read it, and returns its path.
	Keep     func(text string) (path string, err error)
	Backends func(plugin string) (ToolBackend, bool)
	// HostTools finds the host tool with a label.
	HostTools func(label string) (HostTool, bool)
	BuiltIn   func(plugin string) bool // reports whether a plugin comes with gantry; nil: none does
	// Tool returns the user's settings for a tool; its calls are decided on by their effects alone if it returns nil or is nil.
	Tool      func(e *registry.Entry) *policy.Tool
	Processes Processes
	Files     Files // of the turn; nil: files are not backed up
	// Control waits while a person has control of a session of a plugin, and reports whether it did; nil: nobody ever has. Its error is
	// the cause of ctx's end.
	Control func(ctx context.Context, plugin, session string) (waited bool, err error)
	Redact  *redact.Redactor // removes secrets from results and items; nil: nothing is removed
}

// Settings are the settings of a turn.
type Settings struct {
	Thread   event.ThreadID
	Turn     event.TurnID
	Cwd      string
	Approval policy.Approval
	Sandbox  string
	Tools    *registry.Snapshot
	Traits   []string       // of the model
	Output   history.Policy // truncates output for the model
	Caps     contract.CallCaps
}

// Pipeline runs the calls of a thread.
type Pipeline struct {
	deps   Deps
	tokens *Tokens
	log    hclog.Logger
}

// New makes a pipeline. The tokens are shared with the service that plugins send their requests to.
func New(d Deps, tokens *Tokens, log hclog.Logger) *Pipeline {
	return &Pipeline{deps: d, tokens: tokens, log: log}
}

// Call is one call as the model made it.
type Call struct {
	Settings
	Model    *llm.ToolCall
	ID       event.CallID
	Parents  []event.CallID
	History  []llm.Message // the conversation before the call; for reviewers, read-only
	Revision string        // of the history; empty: the result is for another reader than the model
	Signal   Signal        // of the thread; nil: no turn of the model made the call

	parent  *Live         // the call that made this one; nil: the model made it
	written *llm.ToolCall // the call that the model wrote, if it is one of a host tool that stands for another; else nil
}

// resolve finds the tool of a call; nil: there is none. A call that stands for one of another tool becomes that call, which passes the
// pipeline like any other. If there is no such tool, the host tool runs and says so.
func (c Call) resolve() (Call, *registry.Entry) {
	e, ok := c.Tools.Lookup(c.Model.Namespace, c.Model.Name)
	if !ok || e.Target == nil {
		return c, e
	}
	target := e.Target(c.Model.Input)
	if target == nil {
		return c, e
	}
	other, ok := c.Tools.Lookup(target.Namespace, target.Name)
	if !ok || other.HostTool != "" || other.Exposure == contract.ExposureHidden {
		return c, e
	}
	target.ID, c.written, c.Model = c.Model.ID, c.Model, target
	return c, other
}

// reenters reports whether c is nested in a call of this plugin.
func (c Call) reenters(plugin string) bool {
	for l := c.parent; l != nil; l = l.Call.parent {
		if l.Plugin == plugin {
			return true
		}
	}
	return false
}

// Answer is how a call ended.
type Answer struct {
	Result   *llm.ToolResult // for the history
	Outcome  event.Outcome
	Raw      *contract.Result // for nested calls; nil if the tool returned none
	Context  []string         // messages for the model after the result
	Abort    bool             // the user wants the turn to end
	Duration time.Duration
}

// Future is a running call.
type Future struct{ done chan Answer }

// Wait waits for the answer, which comes shortly after the call's context ends, if not before.
func (f *Future) Wait() Answer {
	a := <-f.done
	f.done <- a
	return a
}

// Dispatch starts a call and returns immediately. Calls enter the gate in the order of Dispatch. When ctx ends, the call is asked to stop,
// and it is stopped after [Grace]. The call's goroutine ends when the future has its answer.
func (p *Pipeline) Dispatch(ctx context.Context, gate *Gate, c Call) *Future {
	f, run := p.enter(gate, c)
	go run(ctx) // owned by the future
	return f
}

// enter takes the call's place at the gate. run runs the call, and returns when the future has its answer.
func (p *Pipeline) enter(gate *Gate, c Call) (f *Future, run func(ctx context.Context)) {
	f = &Future{done: make(chan Answer, 1)}
	c, entry := c.resolve()
	ticket := gate.Enter(entry != nil && entry.ParallelSafe, groupOf(entry))
	return f, func(ctx context.Context) {
		defer ticket.Leave()
		r := newRun(p, c, entry)
		defer func() {
			if cause := recover(); cause != nil {
				p.log.Error("call panicked", "call", c.ID, "err", cause, "stack", string(debug.Stack()))
				f.done <- r.finish(ctx, *failed(fmt.Sprintf("internal error while running the call: %v", cause)))
			}
		}()
		f.done <- r.finish(ctx, p.run(ctx, r, ticket))
	}
}

func groupOf(e *registry.Entry) string {
	if e == nil {
		return ""
	}
	return e.SerialGroup
}

// run runs a call whose tool may exist. Its outcome also ends the turn if the user has aborted a question of a call nested in it.
func (p *Pipeline) run(ctx context.Context, r *run, ticket *Ticket) outcome {
	if r.entry == nil {
		return *failed(unsupported(r.call.Model))
	}
	if err := r.entry.CheckCaller(r.call.parent != nil); err != nil {
		return *failed(err.Error())
	}
	ctx, r.abort = context.WithCancelCause(ctx)
	defer r.abort(nil)
	end := p.pass(ctx, r, ticket)
	end.abort = end.abort || errors.Is(context.Cause(ctx), errAborted)
	return end
}

// pass passes a call through the stages in their order. A stage returns nil to let the call continue, or the outcome that ends it.
func (p *Pipeline) pass(ctx context.Context, r *run, ticket *Ticket) outcome {
	for _, stage := range []func(context.Context) *outcome{
		r.parse,               // validates the arguments
		r.awaitTurn(ticket),   // the gate: the call is assessed against the state that earlier calls have left
		r.preHook,             // may deny or rewrite
		r.assess,              // learns the effects, or gets an early result
		r.awaitOthers(ticket), // calls that work on the same session run one at a time, in order
		r.show(ticket),        // publishes the item, in order
		r.awaitControl,        // while a person has control of a session that the call works on
		r.decision.decide,     // policy, hooks, reviewer, user
		r.decideAgain,         // if a person has had control in the meantime
		r.grant,               // what its processes may do
		r.journal,             // commits the start before any side effect
	} {
		if end := stage(ctx); end != nil {
			return *end
		}
	}
	return r.execute(ctx)
}

func unsupported(c *llm.ToolCall) string {
	name := registry.FullName(c.Namespace, c.Name)
	if c.Freeform {
		return "unsupported custom tool call: " + name
	}
	return "unsupported call: " + name
}
