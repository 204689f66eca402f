package session

import "time"

// Limits and defaults of the time that a call waits for output.
const (
	minYield     = 250 * time.Millisecond
	maxYield     = 30 * time.Second
	defaultStart = 10 * time.Second
	defaultInput = 250 * time.Millisecond
	// A poll that returns at once costs a request to the model without new information.
	minPoll = 5 * time.Second
	// MaxPoll is the default maximum of a poll.
	MaxPoll = 5 * time.Minute
)

// StartYield returns how long exec_command waits. nil: the default.
func StartYield(ms *uint64) time.Duration { return clamp(ms, defaultStart, minYield, maxYield) }

// InputYield returns how long write_stdin waits after typing.
func InputYield(ms *uint64) time.Duration { return clamp(ms, defaultInput, minYield, maxYield) }

// PollYield returns how long write_stdin waits if it types nothing.
func PollYield(ms *uint64, most time.Duration) time.Duration {
	return clamp(ms, defaultInput, minPoll, max(most, minPoll))
}

func clamp(ms *uint64, def, least, most time.Duration) time.Duration {
	d := def
	if ms != nil {
		// Limited in milliseconds, because a huge number would overflow a Duration.
		d = time.Duration(min(*ms, uint64(most/time.Millisecond))) * time.Millisecond
	}
	return min(max(d, least), most)
}
