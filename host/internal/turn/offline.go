package turn

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Forever makes an [OfflineWaiter] wait without a limit.
const Forever time.Duration = 1<<63 - 1

// Delays between attempts to reach the provider: the first one, which doubles up to the maximum. Codex-compatible.
const (
	firstOfflineDelay = 5 * time.Second
	maxOfflineDelay   = time.Minute
)

// offline tracks the waiting for a provider that can't be reached: the machine has no network, or the server is not running. Such
// attempts cost nothing, so they don't count as retries.
type offline struct {
	looks  int
	waited time.Duration
}

// waits reports whether to wait. If another model can take over, it is asked instead.
func (o *offline) waits(s *sampler) bool {
	if source, ok := first[FallbackSource](s.participants); ok && source.HasFallback() {
		return false
	}
	return o.waited < s.offlineWait()
}

// offlineWait returns the current total time to wait for an unreachable provider.
func (s *sampler) offlineWait() (longest time.Duration) {
	for _, w := range each[OfflineWaiter](s.participants) {
		longest = max(longest, w.OfflineWait())
	}
	return longest
}

// wait waits until the next attempt is due.
func (o *offline) wait(ctx context.Context, s *sampler, e *llm.Error) error {
	d := min(firstOfflineDelay<<min(o.looks, 10), maxOfflineDelay, s.offlineWait()-o.waited)
	if d <= 0 { // the person who would have waited has just left
		return nil
	}
	o.looks++
	o.waited += d
	if err := s.write(ctx, event.StreamRetried{DelayMS: d.Milliseconds(), Cause: e.Error(), Offline: true, Code: e.Code.String(), Status: e.Status}); err != nil {
		return err
	}
	return pause(ctx, d)
}
