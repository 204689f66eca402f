package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Turn runs the hooks of one turn. It implements [Hooks] and [Stops]. It is safe for concurrent use.
type Turn struct {
	*Thread
	scene  TurnInfo
	agreed map[string]string
	env    []string
}

// refusal returns the first denial, in the order of the configuration.
func refusal(rs []ran) (*ran, string) {
	for i := range rs {
		r := &rs[i]
		switch {
		case r.block:
			return r, fmt.Sprintf("a required hook failed: %s", r.reason)
		case r.status == event.HookBlocked, r.status == event.HookStopped:
			return r, r.reason
		}
	}
	return nil, ""
}

func contexts(rs []ran) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.context...)
	}
	return out
}

func (c Call) names() []string { return append([]string{c.Tool}, c.Aliases...) }

func (c Call) fields() fields {
	out := fields{"tool_name": c.Tool, "tool_input": c.Input, "tool_use_id": c.ID}
	if len(c.Chain) > 0 {
		out["tool_chain"] = c.Chain
	}
	return out
}

// PreToolUse implements [Hooks]. A denial wins over a question, a question over an approval. If several hooks rewrite the
// arguments, the last one in the configuration wins.
func (t *Turn) PreToolUse(ctx context.Context, c Call) (Verdict, error) {
	rs := t.fire(ctx, PreToolUse, c.names(), c.ID, c.fields())
	if len(rs) > 0 && ctx.Err() != nil { // the hooks did not run to their end
		return Verdict{}, context.Cause(ctx)
	}
	v := Verdict{Context: contexts(rs)}
	if no, reason := refusal(rs); no != nil {
		v.Deny, v.Stop, v.Message = true, !no.block && no.status == event.HookStopped, c.blockedText(reason)
		return v, nil
	}
	for _, r := range rs {
		if r.input != nil {
			v.Input = r.input
		}
		v.Allow = v.Allow || r.allow
		if r.ask && !v.Ask {
			v.Ask, v.Message = true, cmp.Or(r.reason, "a hook asks for your decision")
		}
	}
	v.Allow = v.Allow && !v.Ask
	return v, nil
}

// blockedText is what the model reads instead of a result; codex-compatible.
func (c Call) blockedText(reason string) string {
	var in struct {
		Command *string `json:"command"`
	}
	if json.Unmarshal(c.Input, &in) == nil && in.Command != nil {
		return fmt.Sprintf("Command blocked by PreToolUse hook: %s. Command: %s", strings.TrimSuffix(reason, "."), *in.Command)
	}
	return fmt.Sprintf("Tool call blocked by PreToolUse hook: %s. Tool: %s", strings.TrimSuffix(reason, "."), c.Tool)
}

// PermissionRequest implements [Hooks]. A denial wins over approvals.
func (t *Turn) PermissionRequest(ctx context.Context, q Request) (Permission, error) {
	call := q.ID
	if q.Retry {
		call += ":retry"
	}
	in := q.fields()
	delete(in, "tool_use_id")
	if q.Description != "" {
		in["tool_input"] = described(q.Input, q.Description)
	}
	rs := t.fire(ctx, PermissionRequest, q.names(), call, in)
	if len(rs) > 0 && ctx.Err() != nil {
		return Permission{}, context.Cause(ctx)
	}
	if no, reason := refusal(rs); no != nil {
		return Permission{Deny: true, Message: reason}, nil
	}
	for _, r := range rs {
		if r.allow {
			return Permission{Allow: true}, nil
		}
	}
	return Permission{}, nil
}

// described adds a description to arguments without one.
func described(input json.RawMessage, text string) json.RawMessage {
	var in map[string]json.RawMessage
	if json.Unmarshal(input, &in) != nil || in == nil || in["description"] != nil {
		return input
	}
	in["description"], _ = json.Marshal(text) // a string always marshals
	out, err := json.Marshal(in)
	if err != nil {
		return input
	}
	return out
}

// PostToolUse implements [Hooks].
func (t *Turn) PostToolUse(ctx context.Context, c Call, result *contract.Result) (Review, error) {
	in := c.fields()
	in["tool_response"] = response(result)
	rs := t.fire(ctx, PostToolUse, c.names(), c.ID, in)
	v := Review{Context: contexts(rs)}
	var feedback []string
	for _, r := range rs {
		switch {
		case r.block:
			feedback = append(feedback, "The output is withheld: a required hook failed: "+r.reason)
		case r.status == event.HookBlocked, r.status == event.HookStopped:
			feedback = append(feedback, r.reason)
		}
	}
	if feedback != nil {
		text := strings.Join(feedback, "\n\n")
		v.Replace = &text
	}
	return v, nil
}

// response returns the result as hooks see it: its structured content if there is any, else its text.
func response(r *contract.Result) any {
	if r == nil {
		return ""
	}
	if len(r.Structured) > 0 && json.Valid(r.Structured) {
		return r.Structured
	}
	var text strings.Builder
	for _, p := range r.Parts {
		switch p := p.(type) {
		case *contract.TextPart:
			text.WriteString(p.Text)
		case *contract.JSONPart:
			text.Write(p.JSON)
		}
	}
	return text.String()
}

// Begin runs the hooks of the thread's beginning, or of a compaction, if there was one since the last call.
func (t *Turn) Begin(ctx context.Context) Output {
	t.mu.Lock()
	source := t.mu.source
	t.mu.source = ""
	t.mu.Unlock()
	switch source {
	case "":
		return Output{}
	case ofAgent:
		return said(t.fire(ctx, SubagentStart, []string{t.agent.Type}, "", fields{}))
	}
	return said(t.fire(ctx, SessionStart, []string{source}, "", fields{"source": source}))
}

// Prompt runs the hooks of a user's input.
func (t *Turn) Prompt(ctx context.Context, text string) Output {
	return said(t.fire(ctx, UserPromptSubmit, nil, "", fields{"prompt": text}))
}

// Compacting runs the hooks before a compaction. trigger is "manual" or "auto".
func (t *Turn) Compacting(ctx context.Context, trigger string) Output {
	return said(t.fire(ctx, PreCompact, []string{trigger}, "", fields{"trigger": trigger}))
}

// Compacted runs the hooks after a compaction.
func (t *Turn) Compacted(ctx context.Context, trigger string) Output {
	t.mu.Lock()
	t.mu.source = "compact"
	t.mu.Unlock()
	return said(t.fire(ctx, PostCompact, []string{trigger}, "", fields{"trigger": trigger}))
}

// said combines the answers of hooks that may stop what is about to happen.
func said(rs []ran) Output {
	s := Output{Context: contexts(rs)}
	if no, reason := refusal(rs); no != nil {
		s.Stop, s.Reason = true, reason
	}
	return s
}

// Stop implements [Stops]. A hook that ends the turn wins over all that keep it running; the reasons of those are joined.
func (t *Turn) Stop(ctx context.Context, e Ending) (v StopVerdict, err error) {
	in := fields{"stop_hook_active": e.Active, "last_assistant_message": nil}
	if e.LastMessage != "" {
		in["last_assistant_message"] = e.LastMessage
	}
	ev, names := Stop, []string(nil)
	if t.agent.ID != "" {
		ev, names = SubagentStop, []string{t.agent.Type}
		in["agent_transcript_path"] = nil
	}
	var reasons []string
	for _, r := range t.fire(ctx, ev, names, "", in) {
		switch r.status {
		case event.HookStopped:
			return StopVerdict{}, nil
		case event.HookBlocked:
			v.Block, v.Run = true, cmp.Or(v.Run, r.id)
			if r.reason != "" {
				reasons = append(reasons, r.reason)
			}
		}
	}
	v.Reason = strings.Join(reasons, "\n\n")
	return v, nil
}

// Interrupted runs the hooks of a turn that its user interrupted.
func (t *Turn) Interrupted(ctx context.Context, reason string) {
	t.fire(ctx, Interrupt, nil, "", fields{"reason": reason})
}

// Notify runs the hooks of a question to a person, without waiting for them.
func (t *Thread) Notify(q event.QuestionAsked) {
	t.mu.Lock()
	last := t.mu.last
	t.mu.Unlock()
	if last == nil { // there are no questions outside of turns
		return
	}
	kind, message := "elicitation_dialog", "gantry has a question: "
	if q.About == event.QuestionApproval || q.About == event.QuestionPermissions {
		kind, message = "permission_prompt", "gantry needs your permission: "
	}
	last.fire(t.life, Notification, []string{kind}, string(q.Call), fields{"message": message + q.Title, "title": "gantry", "notification_type": kind})
}

// Late returns and clears the context from asynchronous hooks.
func (t *Turn) Late() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	late := t.mu.late
	t.mu.late = nil
	return late
}

// bytesPerToken is gantry's estimate of the size of a token.
const bytesPerToken = 4

// fit limits a text to a hook's limit: it stores a longer text in a file and names the file between the text's beginning and end.
func (t *Turn) fit(text string, limit *int64) string {
	most := int64(DefaultContextTokens)
	if limit != nil {
		most = *limit
	}
	if most == 0 || int64(len(text)) <= most*bytesPerToken {
		return text
	}
	half := int(most * bytesPerToken / 2)
	note := fmt.Sprintf("%d bytes are left out here", len(text)-2*half)
	if path, err := t.keep(text); err == nil {
		note += "; all of it is in " + path
	} else {
		t.engine.cfg.Logger.Debug("text of a hook not kept", "thread", t.id, "err", err)
	}
	return strings.ToValidUTF8(text[:half], "") + "\n[… " + note + " …]\n" + strings.ToValidUTF8(text[len(text)-half:], "")
}
