package hook

import "context"

// Ending is what a hook is told when a turn is about to end because the model has nothing left to do.
type Ending struct {
	Thread, Turn string
	LastMessage  string // the model's last text
	Active       bool   // the turn goes on already because a hook wanted it
	Held         int    // how often in a row hooks have kept this turn from ending
	Most         int    // how often they can; then it ends all the same
}

// StopVerdict is what a hook answers. The zero value lets the turn end.
type StopVerdict struct {
	Block  bool   // the turn goes on
	Reason string // why, for the model; without one a block is no block
	Run    string // names the hook's run to the model
}

// Stops sees turns end. An error is a hook that is broken, which keeps no turn from ending.
type Stops interface {
	Stop(ctx context.Context, e Ending) (StopVerdict, error)
}

// Stop implements [Stops].
func (None) Stop(context.Context, Ending) (StopVerdict, error) { return StopVerdict{}, nil }
