package orchestrate

import (
	"context"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
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

// Authorize decides on effects that become known only while the call runs. denial says why they are refused; "": they are allowed.
func (l *Live) Authorize(ctx context.Context, effects []contract.Effect, reason string, discriminators []string) (denial string, err error) {
	d, ok := l.decision()
	if !ok {
		return "", fmt.Errorf("the tool no longer exists")
	}
	d.late = true
	d.assessment = contract.Assessment{Effects: effects, Summary: reason}
	p := l.Pipeline.deps.Policy(d.policyRequest())
	end := d.settle(ctx, p, discriminators, d.offerFor(p))
	if _, err := d.publish(context.WithoutCancel(ctx), d.takeReports()...); err != nil {
		return "", err
	}
	switch {
	case end == nil:
		return "", d.keepMoreFiles(ctx)
	case end.abort:
		l.abortTurn()
	case end.kind == event.OutcomeAborted:
		return "", context.Cause(ctx)
	}
	return end.text, nil
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
