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

// OtherTurnError says that the running turn is not the one that input was meant for.
type OtherTurnError struct{ Want, Is event.TurnID }

// Error implements error.
func (e *OtherTurnError) Error() string {
	return fmt.Sprintf("expected active turn id `%s` but found `%s`", e.Want, e.Is)
}

// NotSteerableError says that the running turn accepts no input.
type NotSteerableError struct {
	Turn event.TurnID
	Kind string // what it does: "compact", "review"
}

// Error implements error.
func (e *NotSteerableError) Error() string { return fmt.Sprintf("cannot steer a %s turn", e.Kind) }

// Steer adds input to a given running turn, or adjusts the turn. If it can't join that turn, nothing is accepted and the error says why. Unlike
// [Thread.Submit] it never waits and never starts a turn. When it returns without an error, the input survives a restart of the
// host.
func (t *Thread) Steer(ctx context.Context, into event.TurnID, in turn.Input) (Accepted, error) {
	adjusts := in.Adjust != (turn.Adjustment{})
	switch {
	case in.Blank() != adjusts:
		return Accepted{}, errEmpty
	case into == "":
		return Accepted{}, errors.New("the id of the turn to steer is missing")
	case adjusts: // not durable: the turn ends with its host
		if err := t.check(ctx, Change{Model: in.Adjust.Model, Reasoning: in.Adjust.Effort}); err != nil {
			return Accepted{}, err
		}
		return t.submit(ctx, submitMsg{Submission: Submission{Input: in}, into: into})
	case in.Continue: // there is nothing to keep
		return t.submit(ctx, submitMsg{Submission: Submission{Input: in}, into: into})
	}
	return t.submitDurably(ctx, submitMsg{Submission: Submission{Input: in}, into: into})
}

// steer decides about input that is meant for one turn.
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
