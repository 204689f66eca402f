package orchestrate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// hookCall is what hooks are told of the call. They match it by the name that they know, by others of the tool's, and by the name
// by which the model calls it.
func (r *run) hookCall() hook.Call {
	name, aliases := r.entry.HookName, r.entry.HookAliases
	if name == "" {
		name = r.entry.FullName()
	} else {
		aliases = append([]string{r.entry.FullName()}, aliases...)
	}
	return hook.Call{
		Thread: string(r.call.Thread), Turn: string(r.call.Turn), ID: string(r.call.ID),
		Tool: name, Aliases: aliases, Input: r.hookInput(), Cwd: r.call.Cwd,
	}
}

// plainToHooks reports whether hooks see the call as what it is. A plugin may choose the name and the arguments that they see, so that
// hooks which refuse such calls refuse its own, too; it gets no yes by that.
func (r *run) plainToHooks() bool {
	return r.builtIn() || r.entry.HookName == "" && len(r.entry.HookAliases) == 0 && len(r.entry.HookFields) == 0
}

// freeformField is the field under which hooks see raw text.
const freeformField = "command"

// hookInput shows the arguments under the names that hooks know.
func (r *run) hookInput() json.RawMessage {
	if r.input.Freeform {
		b, _ := json.Marshal(map[string]string{freeformField: r.input.Text}) // a string always marshals
		return b
	}
	if len(r.entry.HookFields) == 0 {
		return r.input.Arguments
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(r.input.Arguments, &args) != nil {
		return r.input.Arguments
	}
	out := map[string]json.RawMessage{}
	for hookField, argument := range r.entry.HookFields {
		if v, ok := args[argument]; ok {
			out[hookField] = v
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return r.input.Arguments
	}
	return b
}

// rewritten is the call with what a hook put in the place of its arguments. Arguments that hooks do not see stay.
func (r *run) rewritten(input json.RawMessage) (*llm.ToolCall, error) {
	call := *r.call.Model
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(input, &fields); err != nil || fields == nil {
		return nil, errors.New("updatedInput is no object")
	}
	if r.input.Freeform {
		var text string
		if err := json.Unmarshal(fields[freeformField], &text); err != nil {
			return nil, errors.New("updatedInput has no text \"" + freeformField + "\"")
		}
		call.Input, call.Freeform = text, true
		return &call, nil
	}
	if len(r.entry.HookFields) > 0 {
		args := map[string]json.RawMessage{}
		if json.Unmarshal(r.input.Arguments, &args) != nil {
			return nil, errors.New("the arguments are no object")
		}
		for field, value := range fields {
			if argument, ok := r.entry.HookFields[field]; ok {
				field = argument
			}
			args[field] = value
		}
		fields = args
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	call.Input, call.Freeform = string(b), false
	return &call, nil
}

// unhooked reports whether there are no hooks, for whom what the call is would only be put together in vain.
func (r *run) unhooked() bool {
	_, none := r.pipeline.deps.Hooks.(hook.None)
	return none
}

func (r *run) preHook(ctx context.Context) *verdict {
	if r.unhooked() {
		return nil
	}
	v, err := r.pipeline.deps.Hooks.PreToolUse(ctx, r.hookCall())
	switch {
	case err != nil && ctx.Err() != nil:
		return &verdict{outcome: event.OutcomeAborted}
	case err != nil:
		return denied("a PreToolUse hook failed: " + err.Error())
	}
	r.context = append(r.context, v.Context...)
	if v.Deny {
		no := denied(v.Message)
		no.abort = v.Stop
		return no
	}
	r.hooked = v
	if v.Input == nil {
		return nil
	}
	call, err := r.rewritten(v.Input)
	if err != nil {
		return fail("a PreToolUse hook rewrote the arguments: " + err.Error())
	}
	in, err := r.entry.Parse(call)
	if err != nil {
		return fail("a PreToolUse hook rewrote the arguments: " + err.Error())
	}
	r.input = in
	return nil
}

// permission asks hooks in a person's place. decided false: they leave it to others. nil: it may run.
func (r *run) permission(ctx context.Context, why string) (v *verdict, decided bool) {
	p, err := r.pipeline.deps.Hooks.PermissionRequest(ctx, hook.Request{Call: r.hookCall(), Description: why, Retry: r.attempt > 0 && r.executed})
	switch {
	case err != nil && ctx.Err() != nil:
		return &verdict{outcome: event.OutcomeAborted}, true
	case err != nil:
		return denied("a PermissionRequest hook failed: " + err.Error()), true
	case p.Deny:
		return denied("rejected: " + p.Message), true
	}
	return nil, p.Allow && r.plainToHooks()
}

func (r *run) postHook(ctx context.Context, v *verdict) {
	if r.unhooked() {
		return
	}
	review, err := r.pipeline.deps.Hooks.PostToolUse(ctx, r.hookCall(), v.result)
	if err != nil {
		review.Context = append(review.Context, "a PostToolUse hook failed: "+err.Error())
	}
	r.context = append(r.context, review.Context...)
	if review.Replace != nil {
		replaced := *v.result
		replaced.Structured = nil // it is the answer once more
		replaced.Parts = []contract.Part{&contract.TextPart{Text: *review.Replace, Fit: contract.FitBounded}}
		v.result = &replaced
	}
}
