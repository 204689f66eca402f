package turn

import (
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// timeError is the cause of a turn's end that took too long.
type timeError struct{ most time.Duration }

func (e *timeError) Error() string { return fmt.Sprintf("the turn reached its limit of %v", e.most) }

// Is lets rooms below tell the end of the time from a person's word.
func (e *timeError) Is(target error) bool { return target == orchestrate.ErrTimeUp }

func (e *timeError) problem() *event.Problem {
	return &event.Problem{
		Code: "turn-time", Message: e.Error(),
		Next: "say how to go on, or raise limits.turn_time",
	}
}
