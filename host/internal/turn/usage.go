package turn

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// count adds what one answer used.
func (a *answer) count(ctx context.Context, u llm.Usage) error {
	t := tokens(u)
	a.usage = a.usage.Add(t)
	a.total = a.total.Add(t)
	_, err := a.Log.Publish(ctx, a.ID, event.UsageReported{
		ResponseID: a.response, Usage: u, Turn: a.usage, Total: a.total,
		ContextWindow: a.Row.ContextWindow, Active: t.Total,
	})
	return err
}

func tokens(u llm.Usage) event.Tokens {
	v := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	t := event.Tokens{
		Input: v(u.Input), CacheRead: v(u.CacheRead), CacheWrite: v(u.CacheWrite),
		Output: v(u.Output), Reasoning: v(u.Reasoning), Total: v(u.Total),
	}
	if t.Total == 0 {
		t.Total = t.Input + t.Output
	}
	return t
}
