package orchestrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxDepth bounds nested calls: code that calls a tool that runs code that calls a tool. More is an endless recursion.
const maxDepth = 4

// CallTool runs another tool of the thread for l. The call passes all stages, with a gate that belongs to l.
func (l *Live) CallTool(ctx context.Context, namespace, name string, in contract.Input) (*contract.Result, error) {
	call, err := l.nest(namespace, name, in)
	if err != nil {
		return nil, err
	}
	f, run := l.Pipeline.enter(l.Nested, call)
	run(ctx)
	return l.answered(f.Wait())
}

// nest returns a call that l makes.
func (l *Live) nest(namespace, name string, in contract.Input) (Call, error) {
	if len(l.Call.Parents) >= maxDepth {
		return Call{}, fmt.Errorf("calls are nested deeper than %d", maxDepth)
	}
	id := event.CallID(fmt.Sprintf("%s/%s", l.Call.ID, event.NewItemID()))
	call := l.Call
	call.ID, call.parent = id, l
	call.Parents = append(append([]event.CallID(nil), l.Call.Parents...), l.Call.ID)
	call.Model = &llm.ToolCall{ID: string(id), Namespace: namespace, Name: name, Input: string(in.Arguments)}
	if in.Freeform {
		call.Model.Input, call.Model.Freeform = in.Text, true
	}
	return call, nil
}

// chain returns the tools from the model's call to this one; nil: the model made this one.
func (s *subject) chain() (names []string) {
	if s.call.parent == nil {
		return nil
	}
	for l := s.call.parent; l != nil; l = l.Call.parent {
		names = append(names, registry.FullName(l.Call.Model.Namespace, l.Call.Model.Name))
	}
	slices.Reverse(names)
	return append(names, s.entry.FullName())
}

// answered returns the result of a call that l has made.
func (l *Live) answered(a Answer) (*contract.Result, error) {
	if a.Abort {
		l.abortTurn()
	}
	if a.Raw != nil {
		return a.Raw, nil
	}
	result := &contract.Result{IsError: a.Outcome != event.OutcomeOK, Aborted: a.Outcome == event.OutcomeAborted}
	result.Parts = []contract.Part{&contract.TextPart{Text: resultText(a.Result), Fit: contract.FitBounded}}
	return result, nil
}

// abortTurn ends the turn after the user has aborted a question that was asked in the call's name: the call that the model made is asked
// to stop, and with it all that are nested in it.
func (l *Live) abortTurn() {
	for l.Call.parent != nil {
		l = l.Call.parent
	}
	l.abort(errAborted)
}

// Scopes of an authorization: how long its answer is remembered.
const (
	ScopeOnce    = "once"
	ScopeTurn    = "turn"
	ScopeSession = "session"
	ScopeAlways  = "always"
)

// scopeOf returns the scope of a decision. One that was remembered applies until the turn ends at least.
func scopeOf(report event.CallDecided) string {
	switch {
	case report.By == byRemembered, report.Answer == approval.ApproveTurn:
		return ScopeTurn
	case report.Answer == approval.ApproveSession:
		return ScopeSession
	case report.Answer == approval.ApproveAlways:
		return ScopeAlways
	}
	return ScopeOnce
}

// unreached returns the hosts among effects that the plugin may not reach. The sandbox of a call does not confine the plugin's process,
// so these are beyond it; without a sandbox, nothing is.
func (d *decision) unreached(effects []contract.Effect) (out []contract.Effect) {
	t := d.toolPolicy()
	if t == nil || d.call.Sandbox == policy.FullAccess {
		return nil
	}
	for _, e := range effects {
		if n, ok := e.(contract.NetworkEffect); ok && n.Host != policy.EveryHost && !t.Reaches(n) {
			out = append(out, n)
		}
	}
	return out
}

// Authorize decides on effects that become known only while the call runs. denial says why they are refused; "": they are allowed, for as
// long as scope says.
func (l *Live) Authorize(ctx context.Context, effects []contract.Effect, reason string, discriminators []string) (scope, denial string, err error) {
	d, ok := l.decision()
	if !ok {
		return "", "", fmt.Errorf("the tool no longer exists")
	}
	d.late = true
	d.assessment = contract.Assessment{Effects: effects, Summary: reason}
	if hosts := d.unreached(effects); len(hosts) > 0 {
		why := cmp.Or(reason, "the plugin wants to reach a host that its block does not name")
		d.assessment.Escalation = &contract.Escalation{Justification: why, Additional: hosts}
	}
	p := l.Pipeline.deps.Policy(d.policyRequest())
	end := d.settle(ctx, p, discriminators, d.offerFor(p))
	reports := d.takeReports()
	if report, ok := reports[len(reports)-1].(event.CallDecided); ok {
		scope = scopeOf(report)
	}
	if _, err := d.publish(context.WithoutCancel(ctx), reports...); err != nil {
		return "", "", err
	}
	switch {
	case end == nil:
		return scope, "", d.keepMoreFiles(ctx)
	case end.abort:
		l.abortTurn()
	case end.kind == event.OutcomeAborted:
		return "", "", context.Cause(ctx)
	}
	return "", end.text, nil
}

// decision begins a decision about something that the call wants to do while it runs. ok is false if its tool no longer exists.
func (l *Live) decision() (d *decision, ok bool) {
	entry, ok := l.Call.Tools.Lookup(l.Call.Model.Namespace, l.Call.Model.Name)
	if !ok {
		return nil, false
	}
	item := itemState{redact: l.Pipeline.deps.Redact, item: event.Item{ID: l.item, Tool: entry.FullName()}}
	return &decision{subject: &subject{pipeline: l.Pipeline, call: l.Call, asker: l, entry: entry, item: item}}, true
}
