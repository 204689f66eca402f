package host

import (
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// ToolCall is a call of a plugin's tool that no model makes.
type ToolCall struct {
	ID              event.CallID // new
	Namespace, Name string
	Input           string // a JSON object, or any text if Freeform
	Freeform        bool
}

// ToolResult is the result of a [ToolCall], as a model would get it.
type ToolResult struct {
	Content    llm.Parts
	IsError    bool
	Structured json.RawMessage // nil: none
	Artifacts  []contract.ArtifactRef
}

// CallTask returns a call as a task of a thread, which passes the stages that the calls of its models pass. The end of ctx stops the call. The
// result is there when the task has ended without an error; the thread's models read the call and the result later.
func CallTask(ctx context.Context, h *Host, c ToolCall) (t *thread.Task, result <-chan ToolResult) {
	out := make(chan ToolResult, 1)
	return &thread.Task{Name: "tool_call", Work: func(running context.Context, w thread.Worker) turn.Result {
		running, stop := context.WithCancelCause(running)
		defer stop(nil)
		defer context.AfterFunc(ctx, func() { stop(orchestrate.ErrInterrupted) })()
		var a orchestrate.Answer
		r, err := h.running(w.Thread.ID())
		if err == nil {
			a, err = r.callTool(running, w, c)
		}
		if err == nil {
			err = w.Record(context.WithoutCancel(running),
				llm.Message{Role: llm.RoleAssistant, Parts: llm.Parts{c.model()}}, llm.Message{Role: llm.RoleTool, Parts: llm.Parts{a.Result}})
		}
		if err != nil {
			return turn.Result{Status: event.TurnFailed, Problem: turn.ProblemOf(err)}
		}
		answer := ToolResult{Content: a.Result.Content, IsError: a.Result.IsError}
		if a.Raw != nil {
			answer.Structured = a.Raw.Structured
			for _, part := range a.Raw.Parts {
				if ref, ok := part.(*contract.ArtifactPart); ok {
					answer.Artifacts = append(answer.Artifacts, ref.Artifact)
				}
			}
		}
		out <- answer
		if cause := context.Cause(running); cause != nil {
			return turn.Result{Status: event.TurnInterrupted, Cause: cause}
		}
		return turn.Result{Status: event.TurnCompleted}
	}}, out
}

func (c ToolCall) model() *llm.ToolCall {
	return &llm.ToolCall{ID: string(c.ID), Namespace: c.Namespace, Name: c.Name, Input: c.Input, Freeform: c.Freeform}
}

func (r *running) callTool(ctx context.Context, w thread.Worker, c ToolCall) (a orchestrate.Answer, err error) {
	h, t := r.host, r.thread
	started := r.access(t.Settings())
	if err := h.sandbox.Check(ctx, started.Sandbox, started.Cwd); err != nil {
		return a, err
	}
	h.plugins.Load(ctx)
	if _, err := r.awaitSources(ctx); err != nil {
		return a, err
	}
	var hooks hook.Hooks = hook.None{}
	if of := r.hookTurn(w.Turn, started); of != nil {
		hooks = of
	}
	pipeline := r.pipeline(w.Turn, started, t.Model().Model, hooks, checkpoint.NewTracker(h.store, started.Cwd), r.granter())
	return pipeline.Dispatch(ctx, &orchestrate.Gate{}, orchestrate.Call{
		Settings: orchestrate.Settings{
			Thread: t.ID(), Turn: w.Turn, Cwd: started.Cwd, Approval: policy.Approval(started.Approval), Sandbox: started.Sandbox,
			Tools: h.plugins.Registry().Snapshot(), Output: h.outputOf(t.ID()), Caps: capsOf(h.opts.Config.Limits),
		},
		Model: c.model(), ID: c.ID,
	}).Wait(), nil
}
