package thread

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
)

// ErrBusy says that a turn runs where none may run.
var ErrBusy = hint.New("a turn of the thread is running", "wait for its end, or interrupt it")

// ErrArchived says that the thread accepts no input until it is unarchived.
var ErrArchived = hint.New("the thread is archived", "unarchive it")

// Cut says which turns to revert, and what the thread is after that.
type Cut struct {
	Event event.ThreadReverted // Thread has the model, settings, usage and feature states at the cut
	State State                // at the cut
	// Then runs after the turns were reverted and before the next one can start; nil: nothing.
	Then func()
}

// Revert reverts turns. plan selects them from the log, which is complete at that time. Revert returns [ErrBusy] while a turn
// runs; after any error nothing was reverted.
func (t *Thread) Revert(ctx context.Context, plan func(context.Context) (Cut, error)) (done event.ThreadReverted, err error) {
	err = t.runExclusive(ctx, func(ctx context.Context) error {
		if err := t.bus.flush(ctx); err != nil {
			return fmt.Errorf("take turns back: %w", err)
		}
		cut, err := plan(ctx)
		if err != nil {
			return err
		}
		seq, err := t.bus.Publish(ctx, "", cut.Event)
		if err != nil {
			return err
		}
		done = cut.Event
		t.history = history.Restore(slices.Clip(cut.State.Messages), cut.State.Count)
		t.history.SetContextState(cut.State.ContextState)
		t.meter.Reset(cut.State.Usage)
		t.model = cut.State.Model
		settings := back(cut.State.Settings, *t.settings.Load())
		t.settings.Store(&settings)
		if cut.Then != nil {
			cut.Then()
		}
		if err := t.bus.Barrier(ctx, seq); err != nil { // as at the end of a turn
			t.cfg.Logger.Error("revert not stored", "thread", t.cfg.ID, "err", err)
		}
		return nil
	})
	return done, err
}

// Archive archives or unarchives the thread. It returns [ErrBusy] while a turn runs.
func (t *Thread) Archive(ctx context.Context, archived bool) error {
	return t.runExclusive(ctx, func(ctx context.Context) error {
		seq, err := t.bus.Publish(ctx, "", event.ThreadArchived{Archived: archived})
		if err != nil {
			return err
		}
		t.archived.Store(archived)
		return t.bus.Barrier(ctx, seq)
	})
}

// runExclusive runs f while no turn runs. Submissions wait for it.
func (t *Thread) runExclusive(ctx context.Context, f func(context.Context) error) error {
	m := exclusiveMsg{run: f, reply: make(chan error, 1)}
	select {
	case t.alone <- m:
	case <-t.done:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-m.reply:
		return err
	case <-t.done:
		select {
		case err := <-m.reply: // work that has run has replied before done is closed
			return err
		default:
			return ErrClosed
		}
	}
}

// call runs the function. A panic becomes an error.
func (m exclusiveMsg) call(ctx context.Context, t *Thread) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.cfg.Logger.Error("change of a thread panicked", "thread", t.cfg.ID, "err", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return m.run(ctx)
}

// Revert completes the event that reverts turns of a thread that is not running. s is the thread's current state.
func (s State) Revert(cut Cut) event.ThreadReverted { return s.reverted(cut.Event) }

// reverted adds to e what a revert does not change: everything but the model, the usage, feature states and some of the settings.
func (s State) reverted(e event.ThreadReverted) event.ThreadReverted {
	c := s.checkpoint()
	c.Model, c.Usage, c.Settings = e.Thread.Model, e.Thread.Usage, back(e.Thread.Settings, c.Settings)
	c.Features = s.back(e.Thread.Features)
	e.Thread = c
	return e
}

// back returns the earlier states of features, except those that stay as they are.
func (s State) back(was map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(was)
	for _, f := range s.features {
		if _, ok := f.(Lasting); !ok {
			continue
		}
		delete(out, f.ID())
		if is, ok := s.Features[f.ID()]; ok {
			if out == nil {
				out = map[string]json.RawMessage{}
			}
			out[f.ID()] = is
		}
	}
	return out
}

// back returns the earlier settings, except those that say what may happen without the user: they stay as they are.
func back(was, is event.Settings) event.Settings {
	was.Approval, was.Sandbox = is.Approval, is.Sandbox
	return was
}

// Fork returns the events that a fork has after the events it copies, from which s was made. A running turn was interrupted there;
// open sessions and questions were never opened.
func (s State) Fork(from event.ThreadID) []event.Body { return s.copied(from, forkedMidTurn) }

// Recovered returns the events that a copy of a damaged thread has after the undamaged ones.
func (s State) Recovered(from event.ThreadID) []event.Body { return s.copied(from, recordLost) }

func (s State) copied(from event.ThreadID, why repairPolicy) []event.Body {
	c := s.checkpoint()
	c.Started.ForkedFrom, c.Started.CacheKey = from, cmp.Or(c.Started.CacheKey, string(from))
	if !why.mail {
		c.Mail = nil
	}
	first := event.ThreadForked{From: from, Through: s.Seq, Thread: c}
	return append([]event.Body{first}, s.repair(history.New(slices.Clip(s.Messages)), why)...)
}
