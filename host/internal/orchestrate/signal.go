package orchestrate

import "context"

// Arrival says what a turn has to read next.
type Arrival int

// The arrivals. Input comes before mail.
const (
	NoArrival Arrival = iota
	InputArrival
	MailArrival
)

// Signal wakes calls that wait until there is something for their turn to read.
type Signal interface {
	// Wait returns as soon as input or mail waits to be read, and at once if it already does. If ctx ends first, the error is its cause.
	Wait(ctx context.Context) (Arrival, error)
}
