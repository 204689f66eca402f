package turn

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// call records a call and starts it at once, while the model still speaks. known is its answer where it needs none.
func (a *answer) call(ctx context.Context, c *llm.ToolCall, known *llm.ToolResult) error {
	a.followUp = true
	if err := a.record(ctx, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{c}}); err != nil {
		return err
	}
	p := pendingCall{call: c, known: known}
	if known == nil {
		index := int64(len(a.pending))
		p.future = a.Calls.Dispatch(a.turn, &a.gate, orchestrate.Call{
			Settings: a.settings, Model: c, ID: event.CallID(c.ID),
			Next: func() bool { return a.drained.Load() == index },
		})
	}
	a.pending = append(a.pending, p)
	return nil
}

// drain waits for the calls and records their outputs in the order in which the model asked.
func (a *answer) drain(ctx context.Context) error {
	// Outputs of calls that an interrupt stopped are recorded too.
	keep := context.WithoutCancel(ctx)
	for _, p := range a.pending {
		result := p.known
		var further []llm.Message
		if p.future != nil {
			ans := p.future.Wait()
			result = ans.Result
			a.abort = a.abort || ans.Abort
			for _, text := range ans.Context {
				further = append(further, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: text}}})
			}
		}
		ms := append([]llm.Message{{Role: llm.RoleTool, Parts: []llm.Part{result}}}, further...)
		if err := a.record(keep, ms...); err != nil {
			return err
		}
		a.drained.Add(1)
	}
	a.pending = nil
	return nil
}
