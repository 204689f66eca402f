package sink

import (
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// DegradedError says that writing currently fails. Barriers return it; events are kept in memory up to a limit, and written when
// writing works again.
type DegradedError struct {
	Where   string // the database
	Since   time.Time
	Waiting int // number of events in memory
	Err     error
}

// Error implements error.
func (e *DegradedError) Error() string {
	return fmt.Sprintf("store %s: writing has failed since %s: %v", e.Where, e.Since.Format(time.TimeOnly), e.Err)
}

// Unwrap returns the error of the write.
func (e *DegradedError) Unwrap() error { return e.Err }

// FullError says that a degraded sink has reached its memory limit. None of the delivered events was accepted; they may be
// delivered again later.
type FullError struct {
	Waiting int
	Err     error // the [*DegradedError]
}

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("%d events are waiting to be written, and no more are accepted: %v", e.Waiting, e.Err)
}

// Unwrap returns the [*DegradedError].
func (e *FullError) Unwrap() error { return e.Err }

// OrderError says that an event does not follow the last event of its thread.
type OrderError struct {
	Thread event.ThreadID
	Seq    uint64 // of the event
	Want   uint64 // the number of the next event
}

// Error implements error.
func (e *OrderError) Error() string {
	return fmt.Sprintf("thread %s: event %d does not follow event %d", e.Thread, e.Seq, e.Want-1)
}
