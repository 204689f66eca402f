package turn

import (
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// Limits limit a turn. Zero values mean the documented defaults.
type Limits struct {
	StreamRetries int           // retries of a broken stream; default 5, at most 100; negative: none
	IdleTimeout   time.Duration // how long a stream may send nothing; default 5 min
	Samplings     int           // posts per turn; 0: unlimited
	BusyWait      time.Duration // total time to wait for a vendor that accepts no request at the moment; 0: only the retries above
	Time          time.Duration // duration of a turn; 0: unlimited
	HandBack      bool          // when the thread's own budget is reached, one more request is made, without tools, so that the model says what it has got
}

// Defaults; codex-compatible.
const (
	defaultStreamRetries = 5
	maxStreamRetries     = 100
	defaultIdleTimeout   = 5 * time.Minute
)

func (l Limits) withDefaults() Limits {
	switch {
	case l.StreamRetries == 0:
		l.StreamRetries = defaultStreamRetries
	case l.StreamRetries < 0:
		l.StreamRetries = 0
	}
	l.StreamRetries = min(l.StreamRetries, maxStreamRetries)
	if l.IdleTimeout <= 0 {
		l.IdleTimeout = defaultIdleTimeout
	}
	return l
}

// timeError is the cause with which a turn ends that took too long.
type timeError struct{ most time.Duration }

func (e *timeError) Error() string { return fmt.Sprintf("the turn reached its limit of %v", e.most) }

// Is lets other packages tell a time limit from an interruption by a person.
func (e *timeError) Is(target error) bool { return target == orchestrate.ErrTimeUp }

func (e *timeError) problem() *event.Problem {
	return &event.Problem{
		Code: "turn-time", Message: e.Error(),
		Next: "say how to continue, or raise limits.turn_time",
	}
}
