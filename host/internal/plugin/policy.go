package plugin

import "time"

// Limits on restarts.
const (
	// A plugin that crashes breakerCrashes times within breakerWindow is Broken.
	breakerCrashes = 3
	breakerWindow  = 5 * time.Minute
	// healthyAfter is how long a process must have worked for its crash to be delayed like a first one.
	healthyAfter = time.Minute
)

// restartDelays returns the delays before a restart after the first, second, ... crash in a row.
func restartDelays() []time.Duration {
	return []time.Duration{0, 250 * time.Millisecond, time.Second, 4 * time.Second}
}

// crashPolicy decides when a plugin may be restarted. The caller supplies the time.
type crashPolicy struct {
	crashes []time.Time // within the window, oldest first
	inRow   int
	delay   time.Duration // after the last one
}

// crashed records that a process that had been ready since ready crashed at now. If ready is zero, the process failed to start.
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

// broken reports whether the plugin has crashed too often.
func (c *crashPolicy) broken() bool { return len(c.crashes) >= breakerCrashes }

// retryAt returns the earliest time for the next start.
func (c *crashPolicy) retryAt() time.Time {
	if c.inRow == 0 || len(c.crashes) == 0 {
		return time.Time{}
	}
	return c.crashes[len(c.crashes)-1].Add(c.delay)
}

// reset forgets all crashes, after a request by the user, a new configuration or a new binary.
func (c *crashPolicy) reset() { *c = crashPolicy{} }
