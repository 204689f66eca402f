package thread

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// turnRun is one turn of a thread. It owns the history while it runs.
type turnRun struct {
	thread *Thread
	id     event.TurnID
	sub    Submission
	inbox  *turn.Inbox
}

// run runs the turn from its first event to its last.
func (r turnRun) run(ctx context.Context) (res turn.Result) {
	t, began := r.thread, time.Now()
	if t.cfg.Meter == nil { // otherwise it belongs to a turn of another thread
		t.meter.Begin()
	}
	// A turn that has started always ends with an event, after everything that it started has ended.
	defer func() {
		if p := recover(); p != nil {
			res = turn.Crashed(t.cfg.Logger, r.id, p)
		}
		r.end(ctx, res, began)
	}()
	plan, err := r.plan(ctx)
	cfg := plan.Config
	cfg.ID, cfg.Inbox, cfg.Meter, cfg.Log, cfg.Logger, cfg.Mail = r.id, r.inbox, t.meter, t.bus, t.cfg.Logger, t.mail
	switch {
	case err == nil && r.sub.Compact:
		return turn.Compact(ctx, cfg, t.history)
	case err == nil && r.sub.Task != nil:
		return turn.Do(ctx, cfg, t.history, func(ctx context.Context, record turn.Record) turn.Result {
			return r.sub.Task.Work(ctx, Worker{t, r.id, record})
		})
	case err == nil:
		return turn.Run(ctx, cfg, t.history, r.sub.Input)
	}
	res = turn.Result{Status: event.TurnFailed, Problem: turn.ProblemOf(err)}
	if cause := context.Cause(ctx); cause != nil {
		res = turn.Result{Status: event.TurnInterrupted, Cause: cause}
	}
	turn.Keep(ctx, cfg, t.history, r.sub.Input, res)
	return res
}

// plan asks the engine for a plan and publishes the turn's first events. A panic of the engine becomes an error.
func (r turnRun) plan(ctx context.Context) (plan Plan, err error) {
	t, id, sub := r.thread, r.id, r.sub
	is := sub.Change.With(t.Settings())
	is.Model = t.Settings().Model // set by the plan
	defer func() {
		if p := recover(); p != nil {
			t.cfg.Logger.Error("plan of a turn panicked", "thread", t.cfg.ID, "turn", id, "err", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
		if plan.Started.Cwd == "" {
			plan.Started.Cwd = is.Cwd
		}
		if sub.byMail {
			plan.Started.ByMail, plan.Started.Parent = true, turn.ParentOf(t.mail.Waiting())
		}
		first := []event.Body{plan.Started}
		if plan.Changed != nil {
			is.Model = ""
			first = append(first, *plan.Changed)
		}
		if is != t.Settings() {
			first = append(first, event.SettingsChanged{Settings: is})
		}
		for _, n := range plan.Notices {
			first = append(first, n)
		}
		// A turn that was interrupted in the meantime has started all the same.
		_, perr := t.bus.Publish(context.WithoutCancel(ctx), id, first...)
		if perr == nil {
			t.settings.Store(&is)
		}
		if perr == nil && plan.Changed != nil {
			t.model = plan.Changed.To
		} else if perr != nil && err == nil {
			err = perr
		}
	}()
	return t.cfg.Engine.Turn(ctx, t, id, sub)
}

func (r turnRun) end(ctx context.Context, res turn.Result, began time.Time) {
	t, id := r.thread, r.id
	used, total := t.meter.Sum()
	ended := event.TurnEnded{
		Status: res.Status, Error: res.Problem, LastMessage: res.LastMessage,
		Usage: total, TurnUsage: used, DurationMS: time.Since(began).Milliseconds(),
	}
	if t.cfg.Meter == nil {
		ended.Below = t.meter.Below()
	}
	if res.Cause != nil {
		ended.Reason = res.Cause.Error()
	}
	ctx = context.WithoutCancel(ctx)
	seq, err := t.bus.Publish(ctx, id, ended)
	if err != nil {
		t.bus.announce(id, ended) // callers that wait for the end learn of it even if it is not stored
	} else {
		crashpoint.At(crashpoint.TurnEnded, "")
		err = t.bus.Barrier(ctx, seq)
		crashpoint.At(crashpoint.TurnDurable, "")
	}
	if err != nil {
		t.cfg.Logger.Error("end of turn not stored", "thread", t.cfg.ID, "turn", id, "err", err)
	}
}
