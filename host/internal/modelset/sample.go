package modelset

import (
	"context"
	"errors"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Sample asks the model once on behalf of a plugin's call. Usage is reported to the meter and the log of the call's thread. A failure
// to store it is passed to onError and does not fail the call.
func (m *Model) Sample(
	ctx context.Context, c orchestrate.Call, req *llm.Request, meter *usage.Meter, log usage.Publisher, onError func(error),
) (*llm.Message, llm.Usage, llm.FinishReason, error) {
	if e, ok := errors.AsType[*usage.BudgetError](meter.Allow()); ok {
		return nil, llm.Usage{}, llm.FinishUnknown, &llm.Error{Code: llm.ErrQuotaExceeded, Message: e.Error(), Next: e.NextStep()}
	}
	req.Model = m.Config.Name
	req.Messages = history.New(req.Messages).ForPrompt(history.TraitsOf(m.Row))
	req.HostedTools = slices.DeleteFunc(slices.Clone(req.HostedTools), func(kind string) bool { return !slices.Contains(m.Hosted, kind) })
	var fold llm.Fold
	var total llm.Usage
	var reason llm.FinishReason
	var response string
	begun, counted := false, false
	output := m.Row.MaxOutputTokens
	if n := req.Generation.MaxTokens; n != nil && *n > 0 {
		output = *n
	}
	release, err := meter.Reserve(ctx, m.Row, history.Estimate(req.Messages), output, false)
	if err != nil {
		if e, ok := errors.AsType[*usage.BudgetError](err); ok {
			err = &llm.Error{Code: llm.ErrQuotaExceeded, Message: e.Error(), Next: e.NextStep()}
		}
		return nil, llm.Usage{}, llm.FinishUnknown, err
	}
	defer release()
	for ev, err := range m.Client.Stream(ctx, req, c.Turn, 0) {
		if err != nil {
			if begun && !counted {
				meter.Lost()
			}
			return nil, llm.Usage{}, llm.FinishUnknown, err
		}
		fold.Add(ev)
		switch ev := ev.(type) {
		case llm.StepStart:
			response, begun = ev.ResponseID, true
		case llm.StepFinish:
			counted = true
			used := usage.Of(m.Config.Provider, m.Row, response, ev.Usage)
			used.Call = c.ID
			// The tokens were used even if the call has been cancelled meanwhile.
			if err := meter.Report(context.WithoutCancel(ctx), log, c.Turn, used); err != nil {
				onError(err)
			}
		case llm.Finish:
			total, reason = ev.Usage, ev.Reason
		}
	}
	return fold.Message(), total, reason, nil
}
