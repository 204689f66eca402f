package turn

import (
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// Limits end a turn. Zero values are the documented defaults.
type Limits struct {
	StreamRetries int           // how often a broken stream is asked again; default 5, at most 100; negative: never
	IdleTimeout   time.Duration // how long a stream may be silent; default 5 min
	Samplings     int           // most requests of one turn; 0: any number
	Time          time.Duration // most time of one turn; 0: any
}

// Defaults, codex-compatible.
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

// timeError is the cause of a turn's end that took too long.
type timeError struct{ most time.Duration }

func (e *timeError) Error() string { return fmt.Sprintf("the turn reached its limit of %v", e.most) }

// Is lets rooms below tell the end of the time from a person's word.
func (e *timeError) Is(target error) bool { return target == orchestrate.ErrTimeUp }

func (e *timeError) problem() *event.Problem {
	return &event.Problem{
		Code: "turn-time", Message: e.Error(),
		Next: "say how to continue, or raise limits.turn_time",
	}
}
