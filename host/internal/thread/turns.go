package thread

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// runTurn runs one turn from its first event to its last. While it runs, the history is its own.
func (t *Thread) runTurn(ctx context.Context, id event.TurnID, sub Submission, inbox *turn.Inbox) (res turn.Result) {
	began := time.Now()
	// Whatever happens, a turn that began ends with an event, after all that it started has ended.
	defer func() {
		if p := recover(); p != nil {
			t.cfg.Logger.Error("turn panicked", "thread", t.cfg.ID, "turn", id, "err", p, "stack", string(debug.Stack()))
			res = turn.Result{Status: event.TurnFailed, Problem: &event.Problem{
				Code: "internal", Message: fmt.Sprintf("internal error: %v", p), Next: "The thread goes on; please report this.",
			}}
		}
		t.state.Usage = t.state.Usage.Add(res.Usage)
		t.endTurn(ctx, id, res, began)
	}()
	cfg, started, err := t.cfg.Engine.Turn(ctx, t, id, sub)
	if started.Cwd == "" {
		started.Cwd = t.Started().Cwd
	}
	if _, perr := t.bus.Publish(ctx, id, started); perr != nil && err == nil {
		err = perr
	}
	if err != nil {
		inbox.Close()
		if cause := context.Cause(ctx); cause != nil {
			return turn.Result{Status: event.TurnInterrupted, Cause: cause}
		}
		return turn.Result{Status: event.TurnFailed, Problem: problemOf(err)}
	}
	cfg.ID, cfg.Inbox, cfg.Log, cfg.Logger = id, inbox, t.bus, t.cfg.Logger
	return turn.Run(ctx, cfg, t.history, sub.Input, t.state.Usage)
}

func (t *Thread) endTurn(ctx context.Context, id event.TurnID, res turn.Result, began time.Time) {
	ended := event.TurnEnded{
		Status: res.Status, Error: res.Problem, LastMessage: res.LastMessage,
		Usage: t.state.Usage, TurnUsage: res.Usage, DurationMS: time.Since(began).Milliseconds(),
	}
	if res.Cause != nil {
		ended.Reason = res.Cause.Error()
	}
	ctx = context.WithoutCancel(ctx)
	seq, err := t.bus.Publish(ctx, id, ended)
	if err == nil {
		err = t.bus.Barrier(ctx, seq)
	}
	if err != nil {
		t.cfg.Logger.Error("end of turn not stored", "thread", t.cfg.ID, "turn", id, "err", err)
	}
}
