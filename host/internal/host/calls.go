package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Calls of tools that no model makes.
type (
	ToolCall   = threadsocket.ToolCall
	ToolResult = threadsocket.ToolResult
)

// CallTool calls a tool in a turn of its own, after the running one, and returns when that turn has ended. The call passes the stages that the
// calls of the thread's models pass, which read the call and the result later. The end of ctx stops the call. exit: the thread ends with the turn.
func CallTool(ctx context.Context, h *Host, t *thread.Thread, c ToolCall, exit bool) (ToolResult, error) {
	lasting := context.WithoutCancel(ctx) // the end of ctx ends the call, and with it the turn
	events, err := t.Subscribe(lasting, thread.Lossless)
	if err != nil {
		return ToolResult{}, err
	}
	defer events.Close()
	task, result := callTask(ctx, h, c)
	a, err := t.Submit(ctx, thread.Submission{Task: task, ExitAfterTurn: exit})
	if err != nil {
		return ToolResult{}, err
	}
	for {
		e, err := events.Next(lasting)
		if err != nil {
			return ToolResult{}, err
		}
		end, ok := e.Body.(event.TurnEnded)
		if !ok || e.Turn != a.Turn {
			continue
		}
		select {
		case r := <-result:
			return r, nil
		default:
		}
		if end.Error != nil {
			return ToolResult{}, hint.New(end.Error.Message, end.Error.Next)
		}
		return ToolResult{}, errors.New("the call was interrupted")
	}
}

// callTask returns a call as a task of a thread. The result is there when the task has ended without an error.
func callTask(ctx context.Context, h *Host, c ToolCall) (t *thread.Task, result <-chan ToolResult) {
	out := make(chan ToolResult, 1)
	return &thread.Task{Name: "tool_call", Work: func(running context.Context, w thread.Worker) turn.Result {
		running, stop := context.WithCancelCause(running)
		defer stop(nil)
		defer context.AfterFunc(ctx, func() { stop(orchestrate.ErrInterrupted) })()
		var a orchestrate.Answer
		r, err := h.running(w.Thread.ID())
		if err == nil {
			a, err = r.callTool(running, w, &c)
		}
		if err == nil {
			err = w.Record(context.WithoutCancel(running),
				llm.Message{Role: llm.RoleAssistant, Parts: llm.Parts{modelCall(c)}}, llm.Message{Role: llm.RoleTool, Parts: llm.Parts{a.Result}})
		}
		if err != nil {
			return turn.Result{Status: event.TurnFailed, Problem: turn.ProblemOf(err)}
		}
		answer := ToolResult{Content: a.Result.Content, IsError: a.Result.IsError}
		if a.Raw != nil {
			answer.Structured = a.Raw.Structured
			for _, part := range a.Raw.Parts {
				switch part := part.(type) {
				case *contract.ArtifactPart:
					answer.Artifacts = append(answer.Artifacts, part.Artifact)
				case *contract.MediaPart:
					if part.Audience == contract.AudienceUser && len(part.Data) > 0 { // models do not see it
						answer.Content = append(answer.Content, &llm.Media{MediaType: part.MediaType, Data: part.Data})
					}
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

func modelCall(c ToolCall) *llm.ToolCall {
	return &llm.ToolCall{ID: string(c.ID), Namespace: c.Namespace, Name: c.Name, Input: c.Input, Freeform: c.Freeform}
}

func (r *running) callTool(ctx context.Context, w thread.Worker, c *ToolCall) (a orchestrate.Answer, err error) {
	h, t := r.host, r.thread
	started := r.access(t.Settings())
	if err := h.sandbox.Check(ctx, started.Sandbox, started.Cwd); err != nil {
		return a, err
	}
	h.plugins.Load(ctx)
	if _, err := r.awaitSources(ctx); err != nil {
		return a, err
	}
	tools := h.plugins.Registry().Snapshot()
	if err := setNamespace(c, tools); err != nil {
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
			Tools: tools, Output: h.outputOf(t.ID()), Caps: capsOf(h.opts.Config.Limits),
		},
		Model: modelCall(*c), ID: c.ID,
	}).Wait(), nil
}

// setNamespace completes the name of a tool that is said to be a plugin's. Another plugin's tool of that name is not what was meant.
func setNamespace(c *ToolCall, tools *registry.Snapshot) error {
	if c.Plugin == "" {
		return nil
	}
	var names []string
	for _, e := range tools.Entries() {
		switch {
		case e.Plugin != c.Plugin:
		case e.Name == c.Name:
			c.Namespace = e.Namespace
			return nil
		default:
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return hint.New(fmt.Sprintf("there is no plugin %q with tools in the thread", c.Plugin), "see `gantry plugin list`")
	}
	slices.Sort(names)
	return hint.New(fmt.Sprintf("the plugin %q has no tool %q; it has %.500s", c.Plugin, c.Name, strings.Join(names, ", ")), fmt.Sprintf("see `gantry plugin inspect %s`", c.Plugin))
}
