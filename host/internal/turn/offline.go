package turn

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Forever is an [OfflineWaiter]'s wait without an end.
const Forever time.Duration = 1<<63 - 1

// The pauses between looks for the network: the first one, doubled each time up to the longest. Codex-compatible.
const (
	firstLook   = 5 * time.Second
	longestLook = time.Minute
)

// offline is a model that can't be reached from here: the machine has no network, or the server does not run. Asking again costs
// nothing and nobody, so it has no part in the budget of tries.
type offline struct {
	looks  int
	waited time.Duration
}

// waits reports whether it is waited for. Where another model stands in, that one is asked instead.
func (o *offline) waits(s *sampler) bool {
	if source, ok := first[FallbackSource](s.participants); ok && source.HasFallback() {
		return false
	}
	return o.waited < s.offlineWait()
}

// offlineWait is the total time to wait for an unreachable provider, as it is now.
func (s *sampler) offlineWait() (longest time.Duration) {
	for _, w := range each[OfflineWaiter](s.participants) {
		longest = max(longest, w.OfflineWait())
	}
	return longest
}

// wait waits until it is time for the next look.
func (o *offline) wait(ctx context.Context, s *sampler, e *llm.Error) error {
	d := min(firstLook<<min(o.looks, 10), longestLook, s.offlineWait()-o.waited)
	if d <= 0 { // who had the patience has left just now
		return nil
	}
	o.looks++
	o.waited += d
	if err := s.write(ctx, event.StreamRetried{DelayMS: d.Milliseconds(), Cause: e.Error(), Offline: true}); err != nil {
		return err
	}
	return pause(ctx, d)
}
