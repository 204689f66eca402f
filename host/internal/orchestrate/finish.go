package orchestrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// finish completes a call, whichever stage ended it: hooks, truncation for the model, item, journal.
func (r *run) finish(ctx context.Context, end outcome) Answer {
	took := time.Since(r.started)
	late := errors.Is(context.Cause(ctx), ErrTimeUp)
	ctx = context.WithoutCancel(ctx) // an aborted call is recorded as well
	end.text = r.pipeline.deps.Redact.Text(end.text)
	end.result = withoutSecrets(end.result, r.pipeline.deps.Redact)
	if end.kind == event.OutcomeOK && r.entry != nil {
		given := end.result
		if r.postHook(ctx, &end); end.result != given {
			end.tools = nil // a hook has replaced the result
		}
	}
	r.explain(end.result)
	written := cmp.Or(r.call.written, r.call.Model)
	result := &llm.ToolResult{
		ID: written.ID, Name: written.Name, Namespace: written.Namespace, Freeform: written.Freeform,
		IsError: end.kind != event.OutcomeOK, Search: written.Search, Tools: end.tools,
	}
	switch {
	case end.kind == event.OutcomeAborted:
		result.Content = llm.Parts{&llm.Text{Text: r.abortText(took, late)}}
	case end.result != nil:
		var missing cut
		result.Content, missing = modelContent(end.result.Parts, r.call.Output, r.call.Caps.MaxInlineBytes)
		r.keepWhole(missing)
	default:
		result.Content = llm.Parts{&llm.Text{Text: history.Truncate(end.text, r.call.Output)}}
	}
	if result.Search && end.kind != event.OutcomeOK && end.kind != event.OutcomeAborted {
		// The result of a search holds only tools, so the reason is a message of its own.
		r.context = append(r.context, fmt.Sprintf("The search for tools (call %s) failed: %s", result.ID, resultText(result)))
	}
	r.publishEnd(ctx, end, result, took)
	return Answer{
		Result: result, Outcome: end.kind, Raw: end.result, Context: r.context, Abort: end.abort, Duration: took,
	}
}

// keepWhole stores an output that was truncated where commands can read it, and tells the model where that is.
func (r *run) keepWhole(c cut) {
	if !c.some || r.pipeline.deps.Keep == nil || len(r.call.Parents) > 0 { // results of nested calls are not truncated
		return
	}
	path, err := r.pipeline.deps.Keep(strings.Join(c.whole, "\n"))
	if err != nil {
		r.pipeline.log.Debug("truncated output not stored", "call", r.call.ID, "err", err)
		return
	}
	what := "All of the output"
	if c.lost > 0 {
		what = fmt.Sprintf("The output, but for %d bytes of its middle,", c.lost)
	}
	r.context = append(r.context, fmt.Sprintf("%s of call %s is in %s for now; read the part that you need.", what, r.call.ID, path))
}

// explain adds to the item what the sandbox kept the call from doing. If that concerns a path, the model gets a message: it may request
// access to it, or do without.
func (r *run) explain(result *contract.Result) {
	if result == nil || !result.SandboxDenied || r.pipeline.deps.Denial == nil {
		return
	}
	var text strings.Builder
	for _, p := range result.Parts {
		if t, ok := p.(*contract.TextPart); ok {
			text.WriteString(t.Text)
			text.WriteByte('\n')
		}
	}
	cwd := r.call.Cwd
	if r.item.item.Cwd != "" {
		cwd = r.item.item.Cwd
	}
	d := r.pipeline.deps.Denial(r.granted, cwd, text.String())
	if r.item.item.Denied = d; d != nil && d.Path != "" {
		r.context = append(r.context, deniedContext(*d))
	}
}

func deniedContext(d event.Denial) string {
	text := fmt.Sprintf("The sandbox (%s) does not let commands %s %q.", d.Sandbox, d.Access, d.Path)
	if d.Why != "" {
		text += fmt.Sprintf(" It is kept read-only: %s. If the task needs it, ask for this call to run outside of the sandbox.", d.Why)
	}
	return text
}

// withoutSecrets returns a result without secrets, for the model, hooks and the parent call.
func withoutSecrets(in *contract.Result, secrets *redact.Redactor) *contract.Result {
	if in == nil || secrets == nil {
		return in
	}
	out := *in
	out.Parts = make([]contract.Part, len(in.Parts))
	for i, part := range in.Parts {
		switch p := part.(type) {
		case *contract.TextPart:
			clean := *p
			clean.Text = secrets.Text(p.Text)
			part = &clean
		case *contract.JSONPart:
			part = &contract.JSONPart{Audience: p.Audience, JSON: json.RawMessage(secrets.Text(string(p.JSON)))}
		}
		out.Parts[i] = part
	}
	if len(in.Structured) > 0 {
		out.Structured = json.RawMessage(secrets.Text(string(in.Structured)))
	}
	return &out
}

// abortText is the model's result of a call that was stopped; codex-compatible.
func (r *run) abortText(took time.Duration, late bool) string {
	seconds := max(took.Seconds(), 0.1)
	by := "aborted by user"
	if late {
		by = "aborted by the turn's limit of time"
	}
	if r.entry != nil && r.entry.AbortReadsAsCommand {
		return fmt.Sprintf("Wall time: %.1f seconds\n%s", seconds, by)
	}
	return fmt.Sprintf("%s after %.1fs", by, seconds)
}

// publishEnd publishes what is not published yet, and the end of the item and the call.
func (r *run) publishEnd(ctx context.Context, end outcome, result *llm.ToolResult, took time.Duration) {
	bodies := make([]event.Body, 0, 6)
	if !r.item.shown {
		bodies = append(bodies, event.ItemStarted{Item: r.item.begin()})
	}
	bodies = append(bodies, r.decision.takeReports()...)
	if rest := r.item.flush(); rest != nil {
		bodies = append(bodies, rest)
	}
	text := resultText(result)
	item := r.item.end(end, text)
	changed, diff := r.filesChanged(ctx, &item)
	if changed != nil {
		bodies = append(bodies, *changed)
	}
	bodies = append(bodies, event.ItemCompleted{Item: item})
	if diff != nil {
		bodies = append(bodies, *diff)
	}
	if r.journaled {
		ended := event.CallEnded{Call: r.call.ID, Outcome: end.kind, DurationMS: took.Milliseconds()}
		if end.result != nil {
			ended.Session = end.result.SessionID
		}
		if end.kind != event.OutcomeOK {
			ended.Message = firstLine(text)
		}
		if len(r.call.Parents) == 0 { // the result of a nested call is not part of the history
			ended.Result = result
		}
		bodies = append(bodies, ended)
	}
	if _, err := r.publish(ctx, bodies...); err != nil {
		r.pipeline.log.Warn("end of call not published", "call", r.call.ID, "err", err)
	}
}

func resultText(r *llm.ToolResult) string {
	var b strings.Builder
	for _, p := range r.Content {
		if t, ok := p.(*llm.Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	const bound = 200
	if len(line) > bound {
		line = strings.ToValidUTF8(line[:bound], "") + "…"
	}
	return line
}
