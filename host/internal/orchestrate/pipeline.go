// Package orchestrate is the one way that every tool call takes, from what the model asked to what it reads.
//
// It owns: the order of the stages, the gate, the treatment of denials and aborts, call tokens, and the single place
// where output is cut for the model. It must not know: any tool or plugin by name, how a plugin is reached, how events
// are stored, how a question is shown.
//
// Start with [Pipeline.Dispatch]; the order of the stages stands in [Pipeline.run]. A stage is an interface in [Deps].
package orchestrate

import (
	"context"
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

// Journal is the thread's event stream: Publish orders, Barrier waits until what was published is durable.
type Journal interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Barrier(ctx context.Context, seq uint64) error
}

// Approver asks a person and remembers session-wide answers.
type Approver interface {
	Ask(ctx context.Context, q approval.Question) (approval.Answer, error)
	Allowed(turn event.TurnID, keys []string) bool
	Allow(keys []string)
	AllowTurn(turn event.TurnID, keys []string)
}

// Rulebook writes rules that answer questions for good.
type Rulebook interface {
	// Offer says what a rule for commands that begin with these words would look like.
	Offer(prefixes [][]string) event.RuleOffer
	// OfferHost says what a rule for a host would look like, reached by a protocol of the network's proxy. nil: no rule would let it
	// through without a question.
	OfferHost(protocol, host string) *event.RuleOffer
	// OfferTool says what a rule would look like that lets a tool be called without a question, as long as its descriptor has this digest.
	OfferTool(plugin, tool, descriptor string) event.RuleOffer
	// Write adds it to the user's rules.
	Write(ctx context.Context, o event.RuleOffer) error
}

// Reviewer answers in a person's place. ok false: it leaves the question to the person; why says the reason. An error is a no.
type Reviewer interface {
	Review(ctx context.Context, r ReviewRequest) (a Ruling, ok bool, err error)
}

// ReviewRequest is what a reviewer has to judge.
type ReviewRequest struct {
	Question    approval.Question
	Tool        string
	Input       contract.Input
	Cwd         string
	Sandbox     string
	Unsandboxed bool          // it asks to run without the sandbox
	Retry       bool          // it ran, and the sandbox stopped it
	History     []llm.Message // the conversation up to the call
}

// Ruling is a reviewer's answer.
type Ruling struct {
	approval.Answer
	Message string // for the model, where it is no yes
}

// Policy decides whether a call runs, is asked about, or is refused.
type Policy func(policy.Request) policy.Decision

// Granter makes the grant that a call runs under.
type Granter interface {
	// Grant may refuse; its error is for the model and the user.
	Grant(ctx context.Context, r GrantRequest) (launch.Grant, error)
	// Writable says whether a call may write a path; absolute. The request has no escalation.
	Writable(r GrantRequest, path string) bool
	// Resolve names permissions as the machine knows them, where they can be given. Its error is for the model.
	Resolve(cwd string, p policy.Permissions) (policy.Permissions, error)
}

// GrantRequest is what a grant is made for.
type GrantRequest struct {
	Sandbox    string
	Cwd        string
	Effects    []contract.Effect
	Escalation *contract.Escalation // approved, or nil
	Permitted  policy.Permissions   // before
	Attempt    uint32
}

// Retry decides whether a call that the sandbox denied may be tried again with a wider grant.
type Retry func(policy.Request, *contract.Result) (again *contract.Escalation, ask bool)

// NoRetry never tries again.
func NoRetry(policy.Request, *contract.Result) (*contract.Escalation, bool) { return nil, false }

// Processes ends what a call left behind.
type Processes interface {
	EndCall(ctx context.Context, owner launch.Owner) error
}

// Files keeps what calls may change, and sees what they have changed.
type Files interface {
	// Before keeps what stands where the call may write. What it returns is committed with the call's start; nil: nothing is to be
	// kept. With an error the call is not started.
	Before(ctx context.Context, call event.CallID, effects []contract.Effect, item contract.Item) (*event.FilesKept, error)
	// After says what the call has changed, and notes in its item what of that is stored; nil: there is nothing to say.
	After(ctx context.Context, call event.CallID, item *event.Item) *event.FilesChanged
	// Diff is the turn's net diff so far; nil: there is none.
	Diff(ctx context.Context) *event.TurnDiff
}

// Deps are the parts of the pipeline. All are required but Reviewer, Rulebook, Permits, Denial, Keep, HostTools, BuiltIn, Tool, Files and
// Redact.
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
	// Denial tells what a grant did not let a command do that has printed this; nil: that can't be told.
	Denial func(g launch.Grant, cwd, text string) *event.Denial
	// Keep puts an output that was cut for the model where commands of the thread can read it, and returns its path.
	Keep     func(text string) (path string, err error)
	Backends func(plugin string) (ToolBackend, bool)
	// HostTools finds the host tool with a label.
	HostTools func(label string) (HostTool, bool)
	BuiltIn   func(plugin string) bool // tells which plugins come with gantry; nil: none does
	// Tool is how calls of a tool are decided on as such; nil, as a function or for one tool: only by their effects.
	Tool      func(e *registry.Entry) *policy.Tool
	Processes Processes
	Files     Files            // of the turn; nil: nobody wants to know
	Redact    *redact.Redactor // takes secrets out of what calls show; nil: nothing does
}

// Settings hold for one turn.
type Settings struct {
	Thread   event.ThreadID
	Turn     event.TurnID
	Cwd      string
	Approval policy.Approval
	Sandbox  string
	Tools    *registry.Snapshot
	Traits   []string       // of the model, for the plugin
	Output   history.Policy // how much of an output the model sees
	Caps     contract.CallCaps
}

// Pipeline runs the calls of a thread.
type Pipeline struct {
	deps   Deps
	tokens *Tokens
	log    hclog.Logger
}

// New makes a pipeline. Tokens are shared with whoever serves the plugins.
func New(s Deps, tokens *Tokens, log hclog.Logger) *Pipeline {
	return &Pipeline{deps: s, tokens: tokens, log: log}
}

// Call is one call as the model made it.
type Call struct {
	Settings
	Model   *llm.ToolCall
	ID      event.CallID
	Parents []event.CallID
	History []llm.Message // the conversation up to the call; for reviewers, who only read

	parent *Live // the call that made this one; nil: the model did
}

// reenters reports whether one of the calls that c was made from runs in the same plugin.
func (c Call) reenters(plugin string) bool {
	for l := c.parent; l != nil; l = l.Call.parent {
		if l.Plugin == plugin {
			return true
		}
	}
	return false
}

// Answer is how a call ended. Result is what the history gets.
type Answer struct {
	Result   *llm.ToolResult
	Outcome  event.Outcome
	Raw      *contract.Result // for nested calls; nil where the plugin gave none
	Context  []string         // from hooks
	Abort    bool             // the person wants the turn to end
	Duration time.Duration
}

// Future is a call that runs.
type Future struct{ done chan Answer }

// Wait returns the answer; it comes soon after the call's context ends.
func (f *Future) Wait() Answer {
	a := <-f.done
	f.done <- a
	return a
}

// Dispatch starts a call and returns at once. Its place in the gate is the order of the Dispatch calls. When ctx ends,
// the call is asked to stop, and after [Grace] it is stopped. The goroutine belongs to the future: it ends with it.
func (s *Pipeline) Dispatch(ctx context.Context, gate *Gate, c Call) *Future {
	f := &Future{done: make(chan Answer, 1)}
	entry, found := c.Tools.Lookup(c.Model.Namespace, c.Model.Name)
	ticket := gate.Enter(found && entry.ParallelSafe, groupOf(entry))
	go func() { // owned by the future
		defer ticket.Leave()
		r := &run{pipeline: s, call: c, asker: c.parent, entry: entry, started: time.Now(), item: newItem(c, entry, s.deps.Redact)}
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("call panicked", "call", c.ID, "err", p, "stack", string(debug.Stack()))
				f.done <- r.finish(ctx, r.failed(fmt.Sprintf("internal error while running the call: %v", p)))
			}
		}()
		f.done <- r.finish(ctx, s.run(ctx, r, ticket))
	}()
	return f
}

func groupOf(e *registry.Entry) string {
	if e == nil {
		return ""
	}
	return e.SerialGroup
}

// run is the pipeline: the stages in their order. Each returns either nothing, and the next one goes on, or the verdict
// that ends the call.
func (s *Pipeline) run(ctx context.Context, r *run, ticket *Ticket) verdict {
	if r.entry == nil {
		return r.failed(unsupported(r.call.Model))
	}
	for _, stage := range []func(context.Context) *verdict{
		r.parse,               // arguments against the schema
		r.awaitTurn(ticket),   // the gate: judged on the world that earlier calls left behind
		r.preHook,             // may deny or rewrite
		r.assess,              // effects, or an early result
		r.awaitOthers(ticket), // calls that work on the same session go one by one, in the order asked
		r.show(ticket),        // the item appears, in the order asked
		r.decide,              // policy, reviewer, person
		r.grant,               // what it may do, and its token
		r.journal,             // committed before any side effect
	} {
		if v := stage(ctx); v != nil {
			return *v
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
