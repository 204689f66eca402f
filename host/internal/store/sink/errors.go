package sink

import (
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// DegradedError says that the store can't write at the moment. Barriers fail with it; events stay in memory up to a bound
// and are written once writing works again.
type DegradedError struct {
	Where   string // the database
	Since   time.Time
	Waiting int // events in memory
	Err     error
}

// Error implements error.
func (e *DegradedError) Error() string {
	return fmt.Sprintf("store %s: writing has failed since %s: %v", e.Where, e.Since.Format(time.TimeOnly), e.Err)
}

// Unwrap returns the error of the write.
func (e *DegradedError) Unwrap() error { return e.Err }

// FullError refuses events of a degraded store whose memory is full. None of the Append's events was taken; the same ones
// may be appended again later.
type FullError struct {
	Waiting int
	Err     error // why nothing is written
}

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("%d events are waiting to be written, and no more are accepted: %v", e.Waiting, e.Err)
}

// Unwrap returns the [*DegradedError].
func (e *FullError) Unwrap() error { return e.Err }

// OrderError refuses an event that does not follow the last one of its thread.
type OrderError struct {
	Thread event.ThreadID
	Seq    uint64 // of the event
	Want   uint64 // the number that would follow
}

// Error implements error.
func (e *OrderError) Error() string {
	return fmt.Sprintf("thread %s: event %d does not follow event %d", e.Thread, e.Seq, e.Want-1)
}
