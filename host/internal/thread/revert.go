package thread

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
)

// ErrBusy says that a turn runs where none may.
var ErrBusy = hint.New("a turn of the thread is running", "wait for its end, or interrupt it")

// ErrArchived says that the thread takes no task until it is unarchived.
var ErrArchived = hint.New("the thread is archived", "unarchive it")

// Cut says which turns are taken back, and what is left of the thread.
type Cut struct {
	Event event.ThreadReverted // Thread holds model, settings, usage and the states of features
	State State                // at the cut
	// Then runs when the turns have been taken back, before the next one can begin; nil: nothing.
	Then func()
}

// Revert takes turns back. plan finds out which, from the log, which has all of the thread then. While a turn runs it is
// [ErrBusy]; with any error nothing was taken back.
func (t *Thread) Revert(ctx context.Context, plan func(context.Context) (Cut, error)) (done event.ThreadReverted, err error) {
	err = t.runsAlone(ctx, func(ctx context.Context) error {
		if err := t.flush(ctx); err != nil {
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
		if err := t.bus.Barrier(ctx, seq); err != nil { // as with the end of a turn
			t.cfg.Logger.Error("revert not stored", "thread", t.cfg.ID, "err", err)
		}
		return nil
	})
	return done, err
}

// Archive says that nobody goes on with the thread, or that somebody may again. While a turn runs it is [ErrBusy].
func (t *Thread) Archive(ctx context.Context, archived bool) error {
	return t.runsAlone(ctx, func(ctx context.Context) error {
		seq, err := t.bus.Publish(ctx, "", event.ThreadArchived{Archived: archived})
		if err != nil {
			return err
		}
		t.archived.Store(archived)
		return t.bus.Barrier(ctx, seq)
	})
}

// runsAlone runs f while no turn runs. What is submitted meanwhile waits.
func (t *Thread) runsAlone(ctx context.Context, f func(context.Context) error) error {
	m := aloneMsg{run: f, reply: make(chan error, 1)}
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
		case err := <-m.reply: // what has run has answered by then
			return err
		default:
			return ErrClosed
		}
	}
}

// call runs it. A panic costs nobody else anything.
func (m aloneMsg) call(ctx context.Context, t *Thread) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.cfg.Logger.Error("change of a thread panicked", "thread", t.cfg.ID, "err", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return m.run(ctx)
}

// Revert completes the event that takes turns back of a thread that nobody runs; s is what its log says of it by now.
func (s State) Revert(cut Cut) event.ThreadReverted { return s.reverted(cut.Event) }

// reverted says what stays of the thread as it is: all but its model, its usage, the states of features and
// some of its settings.
func (s State) reverted(e event.ThreadReverted) event.ThreadReverted {
	c := s.checkpoint()
	c.Model, c.Usage, c.Settings = e.Thread.Model, e.Thread.Usage, back(e.Thread.Settings, c.Settings)
	c.Features = e.Thread.Features
	e.Thread = c
	return e
}

// back are settings as they were, without those by which a user says what may happen: these stay as they are.
func back(was, is event.Settings) event.Settings {
	was.Approval, was.Sandbox = is.Approval, is.Sandbox
	return was
}

// Fork is what a fork has beyond the events that it copies, which are what s was made from. A turn that runs there was
// interrupted here, and what is open there was never opened.
func (s State) Fork(from event.ThreadID) []event.Body { return s.copied(from, forkedMidTurn) }

// Recovered is what a copy of a damaged thread has beyond the events that are whole.
func (s State) Recovered(from event.ThreadID) []event.Body { return s.copied(from, recordLost) }

func (s State) copied(from event.ThreadID, why loose) []event.Body {
	c := s.checkpoint()
	c.Started.ForkedFrom = from
	if !why.mail {
		c.Mail = nil
	}
	first := event.ThreadForked{From: from, Through: s.Seq, Thread: c}
	return append([]event.Body{first}, s.repair(history.New(slices.Clip(s.Messages)), why)...)
}
