package orchestrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/host/internal/visible"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// HostTool is a tool that the host implements itself.
type HostTool struct {
	// Backend returns the implementation of one call. It has no process: its context is all that stops it. An error of its Call is
	// a message to the model.
	Backend func(c *HostCall) ToolBackend
	// Decides says that the tool consults the policy itself with [HostCall.Decide], so that the pipeline does not do so before the call.
	Decides bool
	// ItemType is the type of a call's item; empty: that of any tool.
	ItemType event.ItemType
	// Item returns how a call is displayed; nil: with the name of the tool.
	Item func(in contract.Input) contract.Item
}

// HostCall is a call of a host tool, and what the tool can do in its name.
type HostCall struct {
	Call             // with the settings of its turn and the tools that the model chose from
	Permits  Permits // nil: no permissions can be granted
	decision *decision
	found    []llm.Tool
	live     *Live // while the tool runs
	observe  func(contract.CallEvent)
}

// Resolve returns permissions with paths in the form in which they can be granted. Its error is for the model.
func (c *HostCall) Resolve(p policy.Permissions) (policy.Permissions, error) {
	return c.decision.pipeline.deps.Granter.Resolve(c.Cwd, p)
}

// Decide asks the policy about the call, after change has completed the request. The event reports the decision; the tool adds the
// answer and publishes it.
func (c *HostCall) Decide(change func(*policy.Request)) (policy.Decision, event.CallDecided) {
	req := c.decision.policyRequest()
	change(&req)
	p := c.decision.pipeline.deps.Policy(req)
	return p, event.CallDecided{Call: c.ID, Verdict: p.Verdict.String(), By: byPolicy, Reason: visible.Text(p.Reason, maxReason)}
}

// RefusedError says that a hook refused a question, or that there is no one to ask. The text is for the model.
type RefusedError struct{ text string }

func (e *RefusedError) Error() string { return e.text }

// Ask puts a question to the hooks, then the reviewer, then the user. The ruling says who answered and how, with an error too. Except
// for a [RefusedError], an error ends the call: the tool returns it unchanged. A hook that approves chooses the first option.
func (c *HostCall) Ask(ctx context.Context, q approval.Question) (Ruling, error) {
	q.Turn, q.Call = c.Turn, c.ID
	q.Title, q.Message, q.Reason = visible.Text(q.Title, maxTitle), visible.Text(q.Message, maxReason), visible.Text(q.Reason, maxReason)
	a, err := c.decision.put(ctx, q, nil)
	ended, ok := errors.AsType[*endedError](err)
	switch {
	case ok && ended.outcome.kind == event.OutcomeDenied && !ended.outcome.abort:
		return a, &RefusedError{ended.outcome.text}
	case errors.Is(err, approval.ErrNoApprover):
		return a, &RefusedError{err.Error() + ". " + a.Message}
	case err != nil && !ok:
		return a, fmt.Errorf("%s was cancelled before there was an answer: %w", c.decision.entry.Name, err)
	}
	return a, err
}

// AskClients has a client of the thread run the call: the first answer is used. The error is an [approval.ErrNoApprover] if there is no such
// client, or the last one has left. The tool returns other errors unchanged; they end the call.
func (c *HostCall) AskClients(ctx context.Context, tool event.ToolCall) (approval.Answer, error) {
	a, err := c.decision.pipeline.deps.Approver.Ask(ctx, approval.Question{
		About: event.QuestionClientTool, Turn: c.Turn, Call: c.ID, Title: c.decision.entry.FullName(), Tool: &tool,
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = &endedError{*aborted()}
	case !errors.Is(err, approval.ErrNoApprover):
		err = &endedError{*publishFailed(ctx, err)}
	}
	return a, err
}

// Stored adds stored content to the call's item.
func (c *HostCall) Stored(ref contract.ArtifactRef) { c.decision.item.stored(ref) }

// Publish publishes events of the call, even after it was cancelled. The tool returns an error unchanged.
func (c *HostCall) Publish(ctx context.Context, bodies ...event.Body) error {
	if _, err := c.decision.publish(context.WithoutCancel(ctx), bodies...); err != nil {
		return &endedError{*publishFailed(ctx, err)}
	}
	return nil
}

// Progress shows people a line about what the call is doing. It is not stored, and has no effect after the call.
func (c *HostCall) Progress(text string) { c.observe(contract.Progress{Message: text}) }

// AddContext gives the model a message after the call's result.
func (c *HostCall) AddContext(text string) {
	c.decision.context = append(c.decision.context, text)
}

// Found adds declarations of tools to the result of a search for tools.
func (c *HostCall) Found(tools []llm.Tool) { c.found = tools }

// hostTool finds the implementation of a host tool; ok is false for tools of plugins.
func (s *subject) hostTool() (t HostTool, ok bool) {
	if s.entry.HostTool == "" || s.pipeline.deps.HostTools == nil {
		return HostTool{}, false
	}
	return s.pipeline.deps.HostTools(s.entry.HostTool)
}

func (r *run) hostCall() *HostCall {
	return &HostCall{Call: r.call, Permits: r.pipeline.deps.Permits, decision: &r.decision}
}

// executeHost runs a host tool. There is no process, so the call gets no token, and there is nothing to retry and nothing to clean up.
func (r *run) executeHost(ctx context.Context, t HostTool) outcome {
	c := r.hostCall()
	c.live, c.observe = r.live(ctx, r.granted), func(ev contract.CallEvent) { r.observe(ctx, ev) }
	defer c.live.end()
	ctl := tool.Control{Soft: ctx, Reason: cancelReason, Grace: Grace}
	result, err := t.Backend(c).Call(ctx, r.callStart(), ctl, c.observe)
	if ended, ok := errors.AsType[*endedError](err); ok {
		return ended.outcome
	}
	if err != nil {
		return *failed(err.Error())
	}
	r.context = append(r.context, c.live.note(result)...)
	end := resultOutcome(result)
	end.tools = c.found
	return end
}
