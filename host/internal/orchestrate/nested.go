package orchestrate

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxDepth is how deep calls may be nested: code that calls a tool that runs code that calls a tool. Deeper is a loop.
const maxDepth = 4

// CallTool runs another tool of the thread for l, by the whole way of any call and under a gate that l owns.
func (l *Live) CallTool(ctx context.Context, namespace, name string, in contract.Input) (*contract.Result, error) {
	if len(l.Call.Parents) >= maxDepth {
		return nil, fmt.Errorf("calls are nested deeper than %d", maxDepth)
	}
	id := event.CallID(fmt.Sprintf("%s/%s", l.Call.ID, event.NewItemID()))
	call := l.Call
	call.ID, call.parent = id, l
	call.Parents = append(append([]event.CallID(nil), l.Call.Parents...), l.Call.ID)
	call.Model = &llm.ToolCall{ID: string(id), Namespace: namespace, Name: name, Input: string(in.Arguments)}
	if in.Freeform {
		call.Model.Input, call.Model.Freeform = in.Text, true
	}
	a := l.Pipeline.Dispatch(ctx, l.Nested, call).Wait()
	if a.Raw != nil {
		return a.Raw, nil
	}
	result := &contract.Result{IsError: a.Outcome != event.OutcomeOK, Aborted: a.Outcome == event.OutcomeAborted}
	result.Parts = []contract.Part{&contract.TextPart{Text: resultText(a.Result), Fit: contract.FitBounded}}
	return result, nil
}

// Authorize decides on effects that only showed up while the call runs. denial says why not; "": granted.
func (l *Live) Authorize(ctx context.Context, effects []contract.Effect, reason string, discriminators []string) (denial string, err error) {
	entry, ok := l.Call.Tools.Lookup(l.Call.Model.Namespace, l.Call.Model.Name)
	if !ok {
		return "", fmt.Errorf("the tool is not there any more")
	}
	r := &run{pipeline: l.Pipeline, call: l.Call, asker: l, entry: entry, late: true, item: itemState{redact: l.Pipeline.deps.Redact, item: event.Item{ID: l.item, Tool: entry.FullName()}}}
	r.assessment = contract.Assessment{Effects: effects, Summary: reason}
	d := l.Pipeline.deps.Policy(r.policyRequest())
	v := r.settle(ctx, d, discriminators, r.offerFor(d))
	if _, err := l.Pipeline.deps.Journal.Publish(context.WithoutCancel(ctx), l.Call.Turn, r.takeDecided()...); err != nil {
		return "", err
	}
	switch {
	case v == nil:
		return "", r.keepAlso(ctx)
	case v.outcome == event.OutcomeAborted:
		return "", context.Cause(ctx)
	}
	return v.text, nil
}
