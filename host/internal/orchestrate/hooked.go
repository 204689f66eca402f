package orchestrate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// hookCall describes the call to hooks. Their matchers see the tool's name for hooks, its aliases, and its name for models.
func (s *subject) hookCall() hook.Call {
	name, aliases := s.entry.HookName, s.entry.HookAliases
	if name == "" {
		name = s.entry.FullName()
	} else {
		aliases = append([]string{s.entry.FullName()}, aliases...)
	}
	return hook.Call{
		Thread: string(s.call.Thread), Turn: string(s.call.Turn), ID: string(s.call.ID),
		Tool: name, Aliases: aliases, Chain: s.chain(), Input: s.hookInput(), Cwd: s.call.Cwd,
	}
}

// plainToHooks reports whether hooks see the call's real name and arguments. A plugin may choose others, so that hooks that refuse such
// calls refuse its calls as well; the approval of a hook that saw those does not count.
func (s *subject) plainToHooks() bool {
	return s.builtIn() || s.entry.HookName == "" && len(s.entry.HookAliases) == 0 && len(s.entry.HookFields) == 0
}

// freeformField is the field under which hooks see raw text.
const freeformField = "command"

// hookInput returns the arguments under their names for hooks.
func (s *subject) hookInput() json.RawMessage {
	if s.input.Freeform {
		b, _ := json.Marshal(map[string]string{freeformField: s.input.Text}) // a string can always be marshalled
		return b
	}
	if len(s.entry.HookFields) == 0 {
		return s.input.Arguments
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(s.input.Arguments, &args) != nil {
		return s.input.Arguments
	}
	out := map[string]json.RawMessage{}
	for hookField, argument := range s.entry.HookFields {
		if v, ok := args[argument]; ok {
			out[hookField] = v
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return s.input.Arguments
	}
	return b
}

// rewritten returns the call with the arguments of a hook. Arguments that hooks do not see are unchanged.
func (s *subject) rewritten(input json.RawMessage) (*llm.ToolCall, error) {
	call := *s.call.Model
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(input, &fields); err != nil || fields == nil {
		return nil, errors.New("updatedInput is not an object")
	}
	if s.input.Freeform {
		var text string
		if err := json.Unmarshal(fields[freeformField], &text); err != nil {
			return nil, errors.New("updatedInput has no string \"" + freeformField + "\"")
		}
		call.Input, call.Freeform = text, true
		return &call, nil
	}
	if len(s.entry.HookFields) > 0 {
		args := map[string]json.RawMessage{}
		if json.Unmarshal(s.input.Arguments, &args) != nil {
			return nil, errors.New("the arguments are not an object")
		}
		for field, value := range fields {
			if argument, ok := s.entry.HookFields[field]; ok {
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

// preHook runs the PreToolUse hooks, which may deny the call or rewrite its arguments.
func (r *run) preHook(ctx context.Context) *outcome {
	if _, none := r.pipeline.deps.Hooks.(hook.None); none { // saves describing the call
		return nil
	}
	v, err := r.pipeline.deps.Hooks.PreToolUse(ctx, r.hookCall())
	switch {
	case err != nil && ctx.Err() != nil:
		return aborted()
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
		return failed("a PreToolUse hook rewrote the arguments: " + err.Error())
	}
	in, err := r.entry.Parse(call)
	if err != nil {
		return failed("a PreToolUse hook rewrote the arguments: " + err.Error())
	}
	r.input = in
	return nil
}

// permission runs the PermissionRequest hooks, which may answer a question in the user's place. decided is false if they don't; a nil
// outcome approves.
func (s *subject) permission(ctx context.Context, why string) (end *outcome, decided bool) {
	p, err := s.pipeline.deps.Hooks.PermissionRequest(ctx, hook.Request{Call: s.hookCall(), Description: why, Retry: s.attempt > 0 && s.executed})
	switch {
	case err != nil && ctx.Err() != nil:
		return aborted(), true
	case err != nil:
		return denied("a PermissionRequest hook failed: " + err.Error()), true
	case p.Deny:
		return denied("rejected: " + p.Message), true
	}
	return nil, p.Allow && s.plainToHooks()
}

// postHook runs the PostToolUse hooks, which may replace the result.
func (r *run) postHook(ctx context.Context, end *outcome) {
	if _, none := r.pipeline.deps.Hooks.(hook.None); none {
		return
	}
	review, err := r.pipeline.deps.Hooks.PostToolUse(ctx, r.hookCall(), end.result)
	if err != nil {
		review.Context = append(review.Context, "a PostToolUse hook failed: "+err.Error())
	}
	r.context = append(r.context, review.Context...)
	if review.Replace != nil {
		replaced := *end.result
		replaced.Structured = nil // the same result in another form
		replaced.Parts = []contract.Part{&contract.TextPart{Text: *review.Replace, Fit: contract.FitBounded}}
		end.result = &replaced
	}
}
