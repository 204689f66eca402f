package turn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// firstDelay doubles with every retry, with ±10 % of noise; codex-compatible.
const firstDelay = 200 * time.Millisecond

// maxDelay bounds what a server may ask us to wait; beyond it the turn fails with the time named.
const maxDelay = 10 * time.Minute

// backoff is the delay before retry n, from 1. noise is in [0, 1).
func backoff(n int, noise float64) time.Duration {
	n = min(n, 20) // 2^20 * 200 ms is days; the shift stays defined
	return time.Duration(float64(firstDelay) * float64(int64(1)<<(n-1)) * (0.9 + 0.2*noise))
}

// sampleWithRetries asks the model until an answer is whole, the budget is spent or the error is final.
func (r *runner) sampleWithRetries(ctx context.Context) (sampled, error) {
	for n := 1; ; n++ {
		s, err := r.sample(ctx)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return s, err
		}
		if s.abort {
			return s, nil
		}
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || !e.Retryable {
			return s, err
		}
		if n > r.Limits.StreamRetries {
			return s, r.exhausted(e)
		}
		delay := backoff(n, rand.Float64())
		if e.RetryAfter > 0 {
			if e.RetryAfter > maxDelay {
				return s, fmt.Errorf("%w; the provider asks to wait %v", err, e.RetryAfter)
			}
			delay = e.RetryAfter
		}
		if _, err := r.Log.Publish(ctx, r.ID, event.StreamRetried{
			Attempt: n, Max: r.Limits.StreamRetries, DelayMS: delay.Milliseconds(), Cause: e.Error(),
		}); err != nil {
			return s, err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

func (r *runner) exhausted(e *llm.Error) error {
	if r.Limits.StreamRetries == 0 {
		return e
	}
	last := *e
	last.Message = fmt.Sprintf("%s (asked %d times)", e.Error(), r.Limits.StreamRetries+1)
	return &last
}
