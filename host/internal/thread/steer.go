package thread

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// ErrNoTurn says that there is no turn that input could join.
var ErrNoTurn = errors.New("no active turn to steer")

// OtherTurnError says that another turn runs than the one that input was for.
type OtherTurnError struct{ Want, Is event.TurnID }

// Error implements error.
func (e *OtherTurnError) Error() string {
	return fmt.Sprintf("expected active turn id `%s` but found `%s`", e.Want, e.Is)
}

// NotSteerableError says that the turn that runs takes no input.
type NotSteerableError struct {
	Turn event.TurnID
	Kind string // what it does: "compact", "review"
}

// Error implements error.
func (e *NotSteerableError) Error() string { return fmt.Sprintf("cannot steer a %s turn", e.Kind) }

// Steer hands over what a user said to the turn that they see: it joins that turn, or nothing is accepted and the error says why.
// Unlike [Thread.Submit] it never waits and never starts a turn. When it returns without an error, the input outlives the host.
func (t *Thread) Steer(ctx context.Context, into event.TurnID, in turn.Input) (Accepted, error) {
	switch {
	case in.Blank():
		return Accepted{}, errEmpty
	case into == "":
		return Accepted{}, errors.New("the id of the turn to steer is missing")
	}
	return t.submitDurably(ctx, submitMsg{Submission: Submission{Input: in}, into: into})
}

// steer decides about input that is for one turn only.
func (o *owner) steer(m submitMsg) []action {
	switch {
	case o.turn == "" || o.ends():
		return []action{refuse{m, ErrNoTurn}}
	case o.turn != m.into:
		return []action{refuse{m, &OtherTurnError{m.into, o.turn}}}
	case o.task != "":
		return []action{refuse{m, &NotSteerableError{o.turn, o.task}}}
	}
	return []action{steerTurn{m}}
}
