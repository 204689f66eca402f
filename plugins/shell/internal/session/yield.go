package session

import "time"

// Bounds of how long a call waits for output.
const (
	minYield     = 250 * time.Millisecond
	maxYield     = 30 * time.Second
	defaultStart = 10 * time.Second
	defaultInput = 250 * time.Millisecond
	// A poll that returns at once costs a model request and tells nothing.
	minPoll = 5 * time.Second
	// MaxPoll is the default bound of a poll.
	MaxPoll = 5 * time.Minute
)

// StartYield is how long exec_command waits. nil is the default.
func StartYield(ms *uint64) time.Duration { return clamp(ms, defaultStart, minYield, maxYield) }

// InputYield is how long write_stdin waits after typing something.
func InputYield(ms *uint64) time.Duration { return clamp(ms, defaultInput, minYield, maxYield) }

// PollYield is how long write_stdin waits when it types nothing.
func PollYield(ms *uint64, most time.Duration) time.Duration {
	return clamp(ms, defaultInput, minPoll, max(most, minPoll))
}

func clamp(ms *uint64, def, least, most time.Duration) time.Duration {
	d := def
	if ms != nil {
		// Compared in milliseconds: a huge number would overflow as a duration.
		d = time.Duration(min(*ms, uint64(most/time.Millisecond))) * time.Millisecond
	}
	return min(max(d, least), most)
}
