package orchestrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// HostTool is a tool that the host implements itself.
type HostTool struct {
	// Backend returns the implementation of one call. It has no process: its context is all that stops it. Errors of its Call
	// are for the model.
	Backend func(c *HostCall) ToolBackend
	// Decides says that the tool consults the policy itself with [HostCall.Decide], so that the pipeline does not do so before the call.
	Decides bool
}

// HostCall is a call of a host tool, and what the tool may do in its name.
type HostCall struct {
	Call            // with the settings of its turn and the tools that the model chose from
	Permits Permits // nil: no permissions can be granted
	run     *run
	found   []llm.Tool
}

// Resolve returns permissions with paths in the form in which they can be granted. Its error is for the model.
func (c *HostCall) Resolve(p policy.Permissions) (policy.Permissions, error) {
	return c.run.pipeline.deps.Granter.Resolve(c.Cwd, p)
}

// Decide asks the policy about the call, after change has completed the request. The event reports the decision; the tool completes
// it with the answer and publishes it.
func (c *HostCall) Decide(change func(*policy.Request)) (policy.Decision, event.CallDecided) {
	req := c.run.policyRequest()
	change(&req)
	d := c.run.pipeline.deps.Policy(req)
	return d, event.CallDecided{Call: c.ID, Verdict: d.Verdict.String(), By: byPolicy, Reason: visible(d.Reason, maxReason)}
}

// RefusedError says that a question was refused by a hook or could not be put to anyone. The text is for the model.
type RefusedError struct{ text string }

func (e *RefusedError) Error() string { return e.text }

// endedError ends the call with a verdict.
type endedError struct{ verdict verdict }

func (e *endedError) Error() string { return cmp.Or(e.verdict.text, "the call was aborted") }

// Ask puts a question to the hooks, then the reviewer, then a person. The ruling says who answered, and how, even if there is an
// error. Except for a [RefusedError], an error ends the call: the tool returns it as it is. A hook that approves chooses the first option.
func (c *HostCall) Ask(ctx context.Context, q approval.Question) (Ruling, error) {
	r := c.run
	q.Turn, q.Call = c.Turn, c.ID
	q.Title, q.Message, q.Reason = visible(q.Title, maxTitle), visible(q.Message, maxReason), visible(q.Reason, maxReason)
	defer r.asker.Wait()()
	if v, decided := r.permission(ctx, cmp.Or(q.Message, q.Reason)); decided {
		if v == nil {
			return Ruling{Answer: approval.Answer{Choice: q.Options[0], By: byHook}}, nil
		}
		no := Ruling{Answer: approval.Answer{Choice: approval.Deny, By: byHook}}
		if v.outcome == event.OutcomeAborted {
			return no, &endedError{*v}
		}
		return no, &RefusedError{v.text}
	}
	a, err := r.answer(ctx, q, &contract.Escalation{Justification: q.Message, Additional: q.Wanted})
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		a.By = byNobody
		return a, &RefusedError{err.Error() + ". " + a.Message}
	case ctx.Err() != nil:
		a.By = byCancelled
		return a, &endedError{verdict{outcome: event.OutcomeAborted}}
	case err != nil:
		a.By = byNobody
		return a, fmt.Errorf("%s was cancelled before there was an answer: %w", r.entry.Name, err)
	case a.Choice == approval.Abort:
		v := denied(cmp.Or(a.Message, "rejected by user"))
		v.abort = true
		return a, &endedError{*v}
	}
	return a, nil
}

// Publish publishes events of the call, even after it was cancelled. The tool returns its error as it is.
func (c *HostCall) Publish(ctx context.Context, bodies ...event.Body) error {
	if _, err := c.run.pipeline.deps.Journal.Publish(context.WithoutCancel(ctx), c.Turn, bodies...); err != nil {
		return &endedError{*c.run.publishFailed(ctx, err)}
	}
	return nil
}

// AddContext gives the model a message after the call's result.
func (c *HostCall) AddContext(text string) { c.run.context = append(c.run.context, text) }

// Found adds declarations of tools to the result, if that is how the model has asked for them.
func (c *HostCall) Found(tools []llm.Tool) { c.found = tools }

// hostTool finds the implementation of a host tool; false: the tool belongs to a plugin, or is not there.
func (r *run) hostTool() (HostTool, bool) {
	if r.entry.HostTool == "" || r.pipeline.deps.HostTools == nil {
		return HostTool{}, false
	}
	return r.pipeline.deps.HostTools(r.entry.HostTool)
}

func (r *run) hostCall() *HostCall {
	return &HostCall{Call: r.call, Permits: r.pipeline.deps.Permits, run: r}
}

// executeHost runs a host tool. There is no process, so there is no token, nothing to retry and nothing to clean up.
func (r *run) executeHost(ctx context.Context, t HostTool) verdict {
	c := r.hostCall()
	ctl := tool.Control{Soft: ctx, Reason: cancelReason, Grace: Grace}
	result, err := t.Backend(c).Call(ctx, r.callStart(), ctl, func(ev contract.CallEvent) { r.observe(ctx, ev) })
	if e, ok := errors.AsType[*endedError](err); ok {
		return e.verdict
	}
	if err != nil {
		return r.failed(err.Error())
	}
	v := resultVerdict(result)
	v.tools = c.found
	return v
}
