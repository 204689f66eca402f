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

// firstDelay is the delay before the first retry; it doubles with every retry, with ±10 % jitter. Codex-compatible.
const firstDelay = 200 * time.Millisecond

// maxDelay limits the delay that a server may ask for; if it asks for more, the turn fails with an error that contains the time.
const maxDelay = 10 * time.Minute

// backoff returns the delay before retry n, counted from 1. noise is in [0, 1).
func backoff(n int, noise float64) time.Duration {
	n = min(n, 20) // 2^20 * 200 ms is days; it prevents an overflow
	return time.Duration(float64(firstDelay) * float64(int64(1)<<(n-1)) * (0.9 + 0.2*noise))
}

// maxRequests limits the requests of one sampling to one model, including the provider's own retries. Each stream gets what is left
// of it.
const maxRequests = 12

// withRetries asks the model until an answer is complete, a limit is reached or the error is final.
func (s *sampler) withRetries(ctx context.Context, once ask) (sampled, error) {
	posts := 0
	var away offline
	var full busy
	most := maxRequests
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return sampled{}, context.Cause(ctx)
		}
		if err := s.meter.Allow(); err != nil && !s.handsBack {
			return sampled{}, err
		}
		got, err := once(ctx, most-posts)
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return got, err
		}
		if got.abort {
			return got, nil
		}
		e, ok := errors.AsType[*llm.Error](err)
		if ok && e.Offline && !got.begun && away.waits(s) {
			if err := away.wait(ctx, s, e); err != nil {
				return got, err
			}
			n-- // nothing was reached: it does not count as a try
			continue
		}
		posts += got.posts
		if ok && !got.begun && full.applies(s, e) {
			if full.waited >= s.limits.BusyWait {
				return got, exhausted(e, posts)
			}
			if err := full.wait(ctx, s, e, posts); err != nil {
				return got, err
			}
			n, most = n-1, posts+1 // the provider tries once: its delays would begin anew
			continue
		}
		// An unknown error in an answer that had begun may be transient: retry once.
		accident := ok && e.Code == llm.ErrUnknown && got.begun && n == 1
		if !ok || !e.Retryable && !accident {
			return got, err
		}
		if n > s.limits.StreamRetries || posts >= maxRequests {
			return got, exhausted(e, posts)
		}
		delay := backoff(n, rand.Float64())
		if e.RetryAfter > 0 {
			if e.RetryAfter > maxDelay {
				return got, retryAfterTooLong(e, time.Now())
			}
			delay = e.RetryAfter
		}
		if err := s.write(ctx, event.StreamRetried{
			Attempt: n, Max: s.limits.StreamRetries, DelayMS: delay.Milliseconds(), Cause: e.Error(), Begun: got.begun, Code: e.Code.String(), Status: e.Status,
		}); err != nil {
			return got, err
		}
		if err := pause(ctx, delay); err != nil {
			return got, err
		}
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exhausted adds the number of requests to an error.
func exhausted(e *llm.Error, posts int) error {
	if posts <= 1 {
		return e
	}
	last := *e
	last.Message = fmt.Sprintf("%s (asked %d times)", e.Error(), posts)
	return &last
}

// retryAfterTooLong returns the error for a server that asks to wait longer than maxDelay.
func retryAfterTooLong(e *llm.Error, now time.Time) error {
	last := *e
	last.Message = fmt.Sprintf("%s (the server asks to wait %v, until %s; the limit is %v)", e.Error(), e.RetryAfter.Round(time.Second),
		now.Add(e.RetryAfter).UTC().Format("2006-01-02 15:04:05 MST"), maxDelay)
	last.Next = "ask again then, or use another model or key"
	return &last
}
