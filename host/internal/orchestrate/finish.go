package orchestrate

import (
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

// finish is the end of every call, whatever stage ended it: hooks, one cut for the model, the item, the journal.
func (r *run) finish(ctx context.Context, v verdict) Answer {
	took := time.Since(r.started)
	late := errors.Is(context.Cause(ctx), ErrTimeUp)
	ctx = context.WithoutCancel(ctx) // an aborted call is recorded too
	v.text = r.pipeline.deps.Redact.Text(v.text)
	v.result = withoutSecrets(v.result, r.pipeline.deps.Redact)
	if v.outcome == event.OutcomeOK && r.entry != nil {
		given := v.result
		if r.postHook(ctx, &v); v.result != given {
			v.tools = nil // a hook put something else in the place of what was found
		}
	}
	r.explain(v.result)
	result := &llm.ToolResult{
		ID: r.call.Model.ID, Name: r.call.Model.Name, Namespace: r.call.Model.Namespace, Freeform: r.call.Model.Freeform,
		IsError: v.outcome != event.OutcomeOK, Search: r.call.Model.Search, Tools: v.tools,
	}
	switch {
	case v.outcome == event.OutcomeAborted:
		result.Content = llm.Parts{&llm.Text{Text: r.abortText(took, late)}}
	case v.result != nil:
		var missing cut
		result.Content, missing = modelContent(v.result.Parts, r.call.Output, r.call.Caps.MaxInlineBytes)
		r.keepWhole(missing)
	default:
		result.Content = llm.Parts{&llm.Text{Text: history.Truncate(v.text, r.call.Output)}}
	}
	if result.Search && v.outcome != event.OutcomeOK && v.outcome != event.OutcomeAborted {
		// The result of a search has room for tools alone, so that the reason goes beside it.
		r.context = append(r.context, fmt.Sprintf("The search for tools (call %s) failed: %s", result.ID, resultText(result)))
	}
	r.publishEnd(ctx, v, result, took)
	return Answer{
		Result: result, Outcome: v.outcome, Raw: v.result, Context: r.context, Abort: v.abort, Duration: took,
	}
}

// keepWhole puts an output that was cut where commands can read it, and tells the model where that is.
func (r *run) keepWhole(c cut) {
	if !c.some || r.pipeline.deps.Keep == nil || len(r.call.Parents) > 0 { // what a nested call gave was not cut
		return
	}
	path, err := r.pipeline.deps.Keep(strings.Join(c.whole, "\n"))
	if err != nil {
		r.pipeline.log.Debug("an output that was cut is not kept", "call", r.call.ID, "err", err)
		return
	}
	what := "All of the output"
	if c.lost > 0 {
		what = fmt.Sprintf("The output, but for %d bytes of its middle,", c.lost)
	}
	r.context = append(r.context, fmt.Sprintf("%s of call %s is in %s for now; read the part that you need.", what, r.call.ID, path))
}

// explain notes what the sandbox did not let a call do. Where that is a path, the model is told of it beside what was printed: it may
// ask for it, or do without.
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

// withoutSecrets is a result as everybody may see it: the model, hooks, a call that made this one.
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

// abortText is what the model reads of a call that was stopped; codex-compatible.
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

func (r *run) publishEnd(ctx context.Context, v verdict, result *llm.ToolResult, took time.Duration) {
	bodies := make([]event.Body, 0, 6)
	if !r.item.shown {
		bodies = append(bodies, event.ItemStarted{Item: r.item.begin()})
	}
	bodies = append(bodies, r.takeDecided()...)
	if rest := r.item.flush(); rest != nil {
		bodies = append(bodies, rest)
	}
	text := resultText(result)
	item := r.item.end(v, text)
	changed, diff := r.filesChanged(ctx, &item)
	if changed != nil {
		bodies = append(bodies, *changed)
	}
	bodies = append(bodies, event.ItemCompleted{Item: item})
	if diff != nil {
		bodies = append(bodies, *diff)
	}
	if r.journaled {
		end := event.CallEnded{Call: r.call.ID, Outcome: v.outcome, DurationMS: took.Milliseconds()}
		if v.result != nil {
			end.Session = v.result.SessionID
		}
		if v.outcome != event.OutcomeOK {
			end.Message = firstLine(text)
		}
		if len(r.call.Parents) == 0 { // what a nested call gave is its parent's, not the history's
			end.Result = result
		}
		bodies = append(bodies, end)
	}
	if _, err := r.pipeline.deps.Journal.Publish(ctx, r.call.Turn, bodies...); err != nil {
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
