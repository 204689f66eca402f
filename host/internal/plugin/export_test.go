package plugin

import "time"

// Timing contains the durations that tests change.
type Timing = timing

// SetTiming changes the durations of the supervisor that New creates from c.
func SetTiming(c *Config, change func(*Timing)) {
	t := defaultTiming()
	if c.timing != nil {
		t = *c.timing
	}
	change(&t)
	c.timing = &t
}

// SetStop sets the timeouts of the steps of a stop.
func (t *timing) SetStop(drain, last, shutdown, terminate time.Duration) {
	t.drainExit, t.drainSwap, t.lastResults, t.shutdown, t.terminate = drain, drain, last, shutdown, terminate
}

func (t *timing) SetHealth(busy, idle, deadline time.Duration) {
	t.healthBusy, t.healthIdle, t.healthDeadline = busy, idle, deadline
}
func (t *timing) SetAbort(d time.Duration)       { t.abort = d }
func (t *timing) SetResources(d time.Duration)   { t.resources = d }
func (t *timing) SetStorage(d time.Duration)     { t.storage = d }
func (t *timing) SetDisk(d time.Duration)        { t.disk, t.diskIdle = d, d }
func (t *timing) SetProbation(d time.Duration)   { t.probation = d }
func (t *timing) SetBackoff(ds ...time.Duration) { t.backoff = ds }

// SetEnv replaces the host's environment.
func SetEnv(c *Config, lookup func(string) (string, bool)) { c.lookupEnv = lookup }

// Crashes records crashes at these times in a crash policy, and returns after each whether the plugin is broken.
func Crashes(at ...time.Duration) (broken []bool) {
	var c crashPolicy
	start := time.Unix(1, 0)
	for _, d := range at {
		c.crashed(start, start.Add(d), restartDelays())
		broken = append(broken, c.broken())
	}
	return broken
}

// Delays records crashes in a crash policy, and returns the delay after each. readyFor is how long each process was ready.
func Delays(readyFor ...time.Duration) (delays []time.Duration) {
	var c crashPolicy
	now := time.Unix(1, 0)
	for _, d := range readyFor {
		ready := now
		now = now.Add(d)
		if d == 0 {
			ready = time.Time{}
		}
		c.crashed(ready, now, restartDelays())
		delays = append(delays, c.retryAt().Sub(now))
	}
	return delays
}
