package turn

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxBusyDelay is the longest delay between two requests to a vendor that answers none at the moment, unless it asks for a longer one.
const maxBusyDelay = time.Minute

// busy tracks the waiting for a vendor that is reached and accepts no request at the moment: it limits their rate, which most count
// by the minute, is overloaded, or has a problem of its own. Its delays continue those of the provider's own retries.
type busy struct{ waited time.Duration }

// applies reports whether a vendor that has answered nothing is waited for after e. If another model can take over, it is asked instead.
func (*busy) applies(s *sampler, e *llm.Error) bool {
	switch e.Code {
	case llm.ErrRateLimit, llm.ErrOverloaded, llm.ErrProviderInternal:
	default:
		return false
	}
	if source, ok := first[FallbackSource](s.participants); ok && source.HasFallback() {
		return false
	}
	return e.Retryable && e.RetryAfter <= maxDelay && s.limits.BusyWait > 0
}

// wait waits until the next request is due. posts is the number of requests so far.
func (b *busy) wait(ctx context.Context, s *sampler, e *llm.Error, posts int) error {
	step := min(backoff(max(posts, 1), rand.Float64()), maxBusyDelay)
	d := min(step, s.limits.BusyWait-b.waited)
	if e.RetryAfter > 0 {
		d = e.RetryAfter
	}
	b.waited += max(d, step) // a vendor that asks for short delays is not asked for ever
	if err := s.write(ctx, event.StreamRetried{DelayMS: d.Milliseconds(), Cause: e.Error(), Busy: true, Code: e.Code.String(), Status: e.Status}); err != nil {
		return err
	}
	return pause(ctx, d)
}
