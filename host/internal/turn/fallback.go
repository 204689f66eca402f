package turn

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// answered asks the model, and where it can't answer those that stand in for it. Who could not answer is not asked again in
// this turn, so it comes to an end; the next turn begins with the thread's own model.
func (r *runner) answered(ctx context.Context, once ask) (sampled, error) {
	for {
		s, err := r.withRetries(ctx, once)
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		source, ok := first[FallbackSource](r.Participants)
		if !ok || r.ownOnly {
			return s, err
		}
		why, ok := errors.AsType[*llm.Error](err)
		if !ok || !AnotherMay(why, s.begun) {
			return s, err
		}
		next, err := source.Fallback(ctx, why)
		if err != nil {
			return s, err
		}
		for _, n := range next.Notices {
			if _, err := r.Log.Publish(ctx, r.ID, n); err != nil {
				return s, err
			}
		}
		r.use(next)
	}
}

// use lets another model go on.
func (r *runner) use(f *Fallback) {
	r.Model, r.Provider, r.Row, r.Request = f.Model, f.Provider, f.Row, f.Request
	r.Settings.Output, r.Settings.Traits = f.Output, f.Traits
}

// AnotherMay tells whether another model may answer where this one could not. A request that is wrong, too long or against
// a policy would be so elsewhere; and what was answered in part went through, so that asking again is what helps.
func AnotherMay(e *llm.Error, begun bool) bool {
	switch e.Code {
	case llm.ErrNoRoute, llm.ErrAuthentication, llm.ErrQuotaExceeded, llm.ErrRateLimit, llm.ErrOverloaded, llm.ErrProviderInternal:
		return true
	case llm.ErrTransport:
		return !begun
	}
	return false
}
