package hook

import "context"

// Ending describes a turn that is about to end because the model has nothing left to do.
type Ending struct {
	Thread, Turn string
	LastMessage  string // the model's last text
	Active       bool   // a hook has already kept this turn from ending
	Held         int    // how often in a row hooks have kept this turn from ending
	Most         int    // how often they may; then it ends anyway
}

// StopVerdict is a hook's answer. The zero value lets the turn end.
type StopVerdict struct {
	Block  bool   // keep the turn running
	Reason string // for the model; without a reason Block has no effect
	Run    string // the hook's run, as the model reads it
}

// Stops is asked before a turn ends. An error means that a hook is broken; it does not keep the turn from ending.
type Stops interface {
	Stop(ctx context.Context, e Ending) (StopVerdict, error)
}

// Stop implements [Stops].
func (None) Stop(context.Context, Ending) (StopVerdict, error) { return StopVerdict{}, nil }
