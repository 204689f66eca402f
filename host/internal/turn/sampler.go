package turn

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sampler sends a turn's requests to the current model. It retries, waits for a provider that can't be reached, and falls back to
// other models.
type sampler struct {
	recorder
	model        Fallback // the model that answers now
	noFallback   bool     // no other model may take over
	participants []Participant
	limits       Limits
	meter        *usage.Meter
	handsBack    bool // the request is made beyond the budget, without tools, for the model to say what it has got
}

// ask asks the model once. attempts limits the tries before the first event.
type ask func(ctx context.Context, attempts int) (sampled, error)

// sampleWithFallback asks the model and, if it can't answer, its fallbacks. A model that could not answer is not asked again in this turn,
// so the loop ends; the next turn begins with the thread's own model.
func (s *sampler) sampleWithFallback(ctx context.Context, once ask) (sampled, error) {
	for {
		got, err := s.withRetries(ctx, once)
		if err == nil || ctx.Err() != nil {
			return got, err
		}
		source, ok := first[FallbackSource](s.participants)
		if !ok || s.noFallback {
			return got, err
		}
		why, ok := errors.AsType[*llm.Error](err)
		if !ok || !MayFallBack(why, got.begun) {
			return got, err
		}
		next, err := source.Fallback(ctx, why)
		if err != nil {
			return got, err
		}
		if err := s.use(ctx, next); err != nil {
			return got, err
		}
	}
}

// use continues with another model.
func (s *sampler) use(ctx context.Context, next *Fallback) error {
	for _, n := range next.Notices {
		if err := s.write(ctx, n); err != nil {
			return err
		}
	}
	s.model = *next
	return nil
}

// adjust continues with what the user has chosen for the rest of the turn.
func (s *sampler) adjust(ctx context.Context, to Adjustment) error {
	source, ok := first[Adjuster](s.participants)
	if to == (Adjustment{}) || !ok {
		return nil
	}
	next, err := source.Adjust(ctx, to)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		text, step := hint.Split(err)
		return s.write(ctx, event.Notice{Level: "warning", Text: "the turn continues with its settings: " + text, Next: step})
	}
	return s.use(ctx, next)
}

var errIdle = errors.New("idle timeout waiting for the model's stream")

// consume reads the stream of a request to its end.
func (s *sampler) consume(ctx context.Context, req *llm.Request, attempts int, each func(context.Context, llm.Event) error) error {
	// What the answer uses is reported before the stream ends. Calls that it has started may still run then, and make requests themselves.
	release, err := s.meter.Reserve(ctx, s.model.Row, s.inputOf(req), outputOf(req, s.model.Row), s.handsBack)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(s.limits.IdleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()
	finished := false
	for ev, err := range s.model.Model.Stream(ctx, req, s.id, attempts) {
		idle.Stop() // only the model's silence counts, not the time that each takes
		if err != nil {
			if errors.Is(context.Cause(ctx), errIdle) {
				return &llm.Error{Code: llm.ErrTransport, Message: errIdle.Error(), Retryable: true}
			}
			return err
		}
		if err := each(ctx, ev); err != nil {
			return err
		}
		if _, ok := ev.(llm.Finish); ok {
			finished = true
		}
		wait := s.limits.IdleTimeout
		if again, ok := ev.(llm.Attempt); ok {
			wait += time.Duration(again.DelayMS) * time.Millisecond // announced delay
		}
		idle.Reset(wait)
	}
	if !finished {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errIdle) {
			return cause
		}
		return &llm.Error{
			Code: llm.ErrIncompleteStream, Message: "stream disconnected before completion: stream closed before the answer was finished",
			Retryable: true,
		}
	}
	return nil
}

// inputOf estimates the tokens of a request.
func (s *sampler) inputOf(req *llm.Request) int64 {
	n := history.Estimate(req.Messages)
	for _, text := range req.System {
		n += history.Tokens(int64(len(text)))
	}
	for _, t := range req.Tools {
		n += history.Tokens(int64(len(t.Description) + len(t.InputSchema)))
	}
	return max(n, s.history.Active())
}

// outputOf returns the most tokens that a model answers with; 0: it is not known.
func outputOf(req *llm.Request, row llm.ModelRow) int64 {
	if n := req.Generation.MaxTokens; n != nil && *n > 0 {
		return *n
	}
	return row.MaxOutputTokens
}

// MayFallBack reports whether another model may be able to answer after this error. A request that is invalid, too long or against
// a policy would fail there too, and after a partial answer a retry is better.
func MayFallBack(e *llm.Error, begun bool) bool {
	switch e.Code {
	case llm.ErrNoRoute, llm.ErrAuthentication, llm.ErrQuotaExceeded, llm.ErrRateLimit, llm.ErrOverloaded, llm.ErrProviderInternal:
		return true
	case llm.ErrTransport:
		return !begun
	}
	return false
}
