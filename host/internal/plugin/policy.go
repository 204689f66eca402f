package plugin

import "time"

// When a plugin that crashed is started again, and when no more.
const (
	// breakerCrashes within breakerWindow make a plugin Broken.
	breakerCrashes = 3
	breakerWindow  = 5 * time.Minute
	// healthyAfter resets the delays: it has worked for that long.
	healthyAfter = time.Minute
)

// restartDelays come before the next start, by the number of crashes in a row.
func restartDelays() []time.Duration {
	return []time.Duration{0, 250 * time.Millisecond, time.Second, 4 * time.Second}
}

// crashPolicy decides about restarts. It is pure: the caller brings the time.
type crashPolicy struct {
	crashes []time.Time // within the window, oldest first
	inRow   int
	delay   time.Duration // after the last one
}

// crashed records that a process which was ready at ready (zero: never) ended at now without being asked to, or didn't
// start.
func (c *crashPolicy) crashed(ready, now time.Time, delays []time.Duration) {
	if !ready.IsZero() && now.Sub(ready) >= healthyAfter {
		c.inRow = 0
	}
	c.inRow++
	c.crashes = append(c.crashes, now)
	keep := 0
	for keep < len(c.crashes) && now.Sub(c.crashes[keep]) > breakerWindow {
		keep++
	}
	c.crashes = c.crashes[keep:]
	c.delay = delays[min(c.inRow, len(delays))-1]
}

// broken tells whether it has crashed too often.
func (c *crashPolicy) broken() bool { return len(c.crashes) >= breakerCrashes }

// retryAt is the earliest moment for the next start.
func (c *crashPolicy) retryAt() time.Time {
	if c.inRow == 0 || len(c.crashes) == 0 {
		return time.Time{}
	}
	return c.crashes[len(c.crashes)-1].Add(c.delay)
}

// reset forgets: the user, a new configuration or a new binary gives it another chance.
func (c *crashPolicy) reset() { *c = crashPolicy{} }
