package turn

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// recordedSlack is how much longer than the model's limit a result may be that does not come from a tool; codex-compatible.
const recordedSlack = 1.2

// call records a call and starts it at once, while the model is still answering. known is the result if the call is not executed.
func (a *answer) call(ctx context.Context, c *llm.ToolCall, known *llm.ToolResult) error {
	a.followUp = true
	if err := a.flush(ctx); err != nil {
		return err
	}
	if err := a.record(ctx, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{c}}); err != nil {
		return err
	}
	p := pendingCall{call: c, known: known}
	if known != nil { // the pipeline has not truncated it
		known.Content = history.TruncateParts(known.Content, a.settings.Output.Scale(recordedSlack))
	} else {
		call := orchestrate.Call{Settings: a.settings, Model: c, ID: event.CallID(c.ID), History: a.history.Messages(), Revision: a.history.Revision()}
		if s := a.Inbox.signal; s != nil {
			call.Signal = s
		}
		p.future = a.Calls.Dispatch(a.turn, &a.gate, call)
	}
	a.pending = append(a.pending, p)
	return nil
}

// drain waits for the calls and records their outputs in the order in which the model made the calls.
func (a *answer) drain(ctx context.Context) error {
	// Outputs of calls that an interrupt stopped are recorded too.
	keep := context.WithoutCancel(ctx)
	var failed error
	// Wait for every call, even if an output could not be recorded: no call outlives its turn.
	for len(a.pending) > 0 {
		p := a.pending[0]
		a.pending = a.pending[1:]
		ans := orchestrate.Answer{Result: p.known}
		if p.future != nil {
			ans = p.future.Wait()
		}
		result := ans.Result
		a.abort = a.abort || ans.Abort
		hint, loop := a.repeats.note(p.call, ans)
		if a.loop == nil {
			a.loop = loop
		}
		var further []llm.Message
		for _, text := range append(ans.Context, hint...) {
			further = append(further, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: text}}})
		}
		ms := append([]llm.Message{{Role: llm.RoleTool, Parts: []llm.Part{result}}}, further...)
		if err := a.record(keep, ms...); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
