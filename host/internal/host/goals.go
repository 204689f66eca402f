package host

import (
	"context"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// goalTools returns the tools with which models read and change the goals of threads.
func goalTools(h *Host) hosttool.Table {
	if !h.opts.Config.Goals.Enabled {
		return nil
	}
	return goal.Table(func(id event.ThreadID) (*goal.Keeper, error) {
		r, err := h.running(id)
		if err != nil {
			return nil, err
		}
		return r.keeper()
	})
}

// withGoal adds the feature that keeps the goal of a thread that is about to run, if it may have one: that of a user which is stored. The
// function returned gives it to the running thread.
func withGoal(h *Host, cfg *thread.Config, as child.Role) func(*running) {
	start := cfg.State.Start
	if cfg.Start != nil {
		start = *cfg.Start
	}
	if !h.opts.Config.Goals.Enabled || start.Ephemeral || as.Unattended || start.Parent != "" {
		return func(*running) {}
	}
	id := cfg.ID
	k := goal.NewKeeper(goal.Config{
		MaxTokens: h.opts.Config.Goals.MaxTokens,
		Working:   func() bool { return AgentsAtWork(h, id) },
		Await: func(ctx context.Context) error {
			t, ok := h.Thread(id)
			if !ok {
				return thread.ErrClosed
			}
			return h.agents.AwaitQuiet(ctx, t)
		},
		Go: h.begin,
	})
	if i := slices.IndexFunc(cfg.Features, func(f thread.Feature) bool { return f.ID() == goal.FeatureID }); i >= 0 {
		cfg.Features[i] = k
	}
	return func(r *running) {
		k.Serve(r.thread)
		r.goal = k
	}
}

// Continues reports whether a thread is about to begin a turn by itself, or waits for agents that are at work.
func Continues(h *Host, id event.ThreadID) bool {
	r, err := h.running(id)
	return AgentsAtWork(h, id) || err == nil && r.goal != nil && r.goal.Pending()
}

// keeper returns what keeps the goal of the thread.
func (r *running) keeper() (*goal.Keeper, error) {
	if r.goal == nil {
		return nil, goal.ErrOff
	}
	return r.goal, nil
}

// GoalOf returns what keeps the goal of a thread that runs in the host.
func GoalOf(h *Host, id event.ThreadID) (*goal.Keeper, error) {
	r, err := h.running(id)
	if err != nil {
		return nil, err
	}
	return r.keeper()
}
