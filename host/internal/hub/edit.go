package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/undo"
)

// Editor changes threads, whether they run here, in another process, or not at all. It loads none: one that does not run is changed in
// the store.
type Editor struct{ hub *Hub }

// edit is a change of a thread.
type edit struct {
	// running changes a thread that runs.
	running func(runner) error
	// stored changes a thread that no process runs. It must lock the thread, unless it only reads.
	stored func(*store.Store) error
	// unload: a stored thread that runs here is unloaded and then changed with stored.
	unload bool
}

// errLoaded says that a thread runs here after all.
var errLoaded = errors.New("the thread was loaded in the meantime")

// change makes a change. No other change of this process and no load of the thread overlaps with one in the store. When another process
// takes the thread in the meantime, change starts over, and asks that process.
func (e Editor) change(ctx context.Context, id event.ThreadID, c edit) error {
	h := e.hub
	if !h.begin() {
		return errClosed
	}
	defer h.work.Done()
	for try := 1; ; try++ {
		t, unreached := h.Reach(ctx, id)
		if errors.Is(unreached, errClosed) {
			return unreached
		}
		if unreached == nil {
			r, err := t.current(ctx)
			if err != nil {
				return err
			}
			l, here := r.(*local)
			if !here {
				return c.running(r)
			}
			if !c.unload || l.ephemeral() {
				if err := l.edit(c.running); !errors.Is(err, errClosed) {
					return err
				}
				select { // it has ended or is being unloaded, and nothing was changed
				case <-l.over:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				continue
			}
		}
		err := e.apart(ctx, id, c)
		if errors.Is(err, errLoaded) {
			continue
		}
		locked, ok := errors.AsType[*store.LockedError](err)
		switch {
		case !ok, locked.Owner.Machine != "":
			return err
		case unreachable(unreached):
			return unreached
		case try >= loadTries:
			return err
		}
		select { // the owner is about to be reachable, or to end
		case <-time.After(loadPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.life.Done():
			return errClosed
		}
	}
}

// edit changes the thread, which stays loaded meanwhile unless a client unloads it.
func (l *local) edit(change func(runner) error) error {
	done, err := l.use()
	if err != nil {
		return err
	}
	defer done()
	return change(l)
}

// apart changes a thread in the store while this process neither loads nor changes it otherwise.
func (e Editor) apart(ctx context.Context, id event.ThreadID, c edit) error {
	h := e.hub
	release, err := h.hold(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if c.unload {
		if err := h.Unload(ctx, id); err != nil {
			return err
		}
	}
	h.mu.Lock()
	loaded := h.mu.threads[id] != nil || h.mu.moving[id] != nil
	h.mu.Unlock()
	if loaded {
		return errLoaded
	}
	s, err := h.stored()
	if err != nil {
		return err
	}
	return c.stored(s)
}

// append adds an event to the log of a thread that is not running.
func (e Editor) append(ctx context.Context, s *store.Store, id event.ThreadID, body event.Body, c Change) error {
	if err := branch.AppendEvent(ctx, s, id, body); err != nil {
		return err
	}
	e.tell(id, c)
	return nil
}

// tell reports the change of a thread that is not running.
func (e Editor) tell(id event.ThreadID, c Change) {
	c.Thread, c.Status = id, Status{State: NotLoaded}
	e.hub.monitor.tell(c)
}

// Fork stores a copy of a thread and returns its ID. The thread may be running, here or elsewhere; it does not change. The fork is not
// loaded.
func (e Editor) Fork(ctx context.Context, id event.ThreadID, f Fork) (fork event.ThreadID, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		fork, err = r.fork(ctx, f)
		return err
	}, stored: func(s *store.Store) (err error) {
		fork, err = branch.Fork(ctx, s, s, id, f.point(), f.Name)
		return err
	}})
	return fork, err
}

func (f Fork) point() branch.Point { return branch.Point{Before: f.Before, Through: f.Through} }

// Revert reverts a turn and all later ones. While a turn of the thread runs, the error has the code [Busy].
func (e Editor) Revert(ctx context.Context, id event.ThreadID, before string) (Reverted, error) {
	if before == "" {
		return Reverted{}, hint.New("no turn specified", "name the first turn to revert")
	}
	return e.revert(ctx, id, before, 0, func(ctx context.Context, s *store.Store) (thread.Cut, error) {
		return branch.Before(ctx, s, id, before)
	})
}

// Rollback reverts the last turns with input.
func (e Editor) Rollback(ctx context.Context, id event.ThreadID, turns int) (Reverted, error) {
	return e.revert(ctx, id, "", turns, func(ctx context.Context, s *store.Store) (thread.Cut, error) { return branch.Last(ctx, s, id, turns) })
}

func (e Editor) revert(ctx context.Context, id event.ThreadID, before string, turns int, plan func(context.Context, *store.Store) (thread.Cut, error)) (done Reverted, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		done, err = r.revert(ctx, before, turns)
		return err
	}, stored: func(s *store.Store) (err error) {
		done, err = reverted(branch.Revert(ctx, s, id, func(ctx context.Context) (thread.Cut, error) { return plan(ctx, s) }))
		if err == nil {
			e.tell(id, Change{Kind: ThreadReverted})
		}
		return err
	}})
	return done, err
}

// Rename names a thread.
func (e Editor) Rename(ctx context.Context, id event.ThreadID, name string) error {
	return e.change(ctx, id, edit{running: func(r runner) error { return r.rename(ctx, name) }, stored: func(s *store.Store) error {
		name, err := branch.Name(name)
		if err != nil {
			return err
		}
		return e.append(ctx, s, id, event.ThreadNamed{Name: name}, Change{Kind: ThreadNamed, Name: name})
	}})
}

// Describe changes what is known about the repository in which a thread works. Nil fields stay as they are, empty ones are cleared.
func (e Editor) Describe(ctx context.Context, id event.ThreadID, git event.ThreadDescribed) error {
	return e.change(ctx, id, edit{running: func(r runner) error { return r.describe(ctx, git) }, stored: func(s *store.Store) error {
		return branch.AppendEvent(ctx, s, id, git)
	}})
}

// Archive removes a thread from listings, so that it can't be continued. A thread that runs here is unloaded; if another process runs it,
// the error has the code [Busy] while a turn runs.
func (e Editor) Archive(ctx context.Context, id event.ThreadID) error {
	return e.change(ctx, id, edit{unload: true, running: func(r runner) error {
		if info, err := e.hub.Info(ctx, string(id)); err == nil && !info.Archived.IsZero() {
			return &branch.ArchivedError{Thread: id}
		}
		return r.archive(ctx, true)
	}, stored: func(s *store.Store) error {
		changed, err := branch.Archive(ctx, s, id, true)
		switch {
		case err != nil:
			return err
		case !changed: // by another client in the meantime
			return &branch.ArchivedError{Thread: id}
		}
		e.tell(id, Change{Kind: ThreadArchived})
		return nil
	}})
}

// Unarchive restores an archived thread.
func (e Editor) Unarchive(ctx context.Context, id event.ThreadID) error {
	not := &Error{Code: NotFound, Message: fmt.Sprintf("thread %s is not archived", id)}
	return e.change(ctx, id, edit{running: func(r runner) error {
		if info, err := e.hub.Info(ctx, string(id)); err == nil && info.Archived.IsZero() {
			return not
		}
		return r.archive(ctx, false)
	}, stored: func(s *store.Store) error {
		changed, err := branch.Archive(ctx, s, id, false)
		switch {
		case err != nil:
			return err
		case !changed:
			return not
		}
		e.tell(id, Change{Kind: ThreadUnarchived})
		return nil
	}})
}

// Delete removes a thread and everything that only it refers to. A thread that runs here is unloaded; for one that another process runs,
// the error has the code [Locked].
func (e Editor) Delete(ctx context.Context, id event.ThreadID) error {
	stored := func(s *store.Store) error {
		if _, err := s.Delete(ctx, id); err != nil {
			return err
		}
		e.tell(id, Change{Kind: ThreadDeleted})
		return nil
	}
	return e.change(ctx, id, edit{unload: true, stored: stored, running: func(r runner) error {
		if !r.ephemeral() {
			s, err := e.hub.stored()
			if err != nil {
				return err
			}
			return stored(s) // refused, unless the owner has just ended
		}
		err := e.hub.Unload(ctx, id) // which is its end
		if err == nil {
			e.tell(id, Change{Kind: ThreadDeleted})
		}
		return err
	}})
}

// Undo restores the files of a turn. If there are obstacles, they are in the report and nothing was changed. While a turn of the thread
// runs, the error has the code [Busy]. The model of a thread that does not run is told when the thread continues.
func (e Editor) Undo(ctx context.Context, id event.ThreadID, p UndoParams) (report UndoReport, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		report, err = r.undo(ctx, p)
		return err
	}, stored: func(s *store.Store) error {
		err := branch.Write(ctx, s, id, func(log *branch.Log) error {
			list, err := checkpoint.Read(s.Events(ctx, id, 0))
			if err != nil {
				return err
			}
			report, err = p.Take(ctx, s, log, list)
			return err
		})
		if _, refused := errors.AsType[*undo.RefusedError](err); refused {
			err = nil // the report contains the reason
		}
		return err
	}})
	return report, err
}

// PreviewUndo returns what Undo would do now, also while a turn runs, and the diff that it would make. Paths in the diff are relative to
// the work tree in which the thread works, or to its folder.
func (e Editor) PreviewUndo(ctx context.Context, id event.ThreadID, p UndoParams) (report UndoReport, diff string, err error) {
	s, err := e.hub.storeOf(ctx, id)
	if err != nil {
		return report, "", err
	}
	info, err := s.Thread(ctx, string(id))
	if err != nil {
		return report, "", err
	}
	list, err := checkpoint.Read(s.Events(ctx, id, 0))
	if err != nil {
		return report, "", err
	}
	choice, err := p.Choose(list)
	if err != nil {
		return report, "", err
	}
	p.DryRun = true
	if report, err = undo.Execute(ctx, s, nil, choice, p.Options); err != nil {
		return report, "", err
	}
	plan, err := undo.Make(ctx, s, choice.Changes.Net())
	if err != nil {
		return report, "", err
	}
	write := checkpoint.Renderer{Root: checkpoint.Root(info.Cwd), Content: func(path string, st event.FileState) (string, error) {
		content, ok := plan.Content(path, st)
		if !ok {
			return "", errors.New("not available")
		}
		return content, nil
	}}
	for _, part := range write.Render(plan.Net(p.Force)) {
		diff += part.Diff
	}
	return report, diff, nil
}

// Queue returns the input that waits for turns of a thread, in the order in which they begin.
func (e Editor) Queue(ctx context.Context, id event.ThreadID) (entries []Queued, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		entries, err = r.queued(ctx)
		return err
	}, stored: func(s *store.Store) error {
		state, err := branch.Resume(ctx, s, id)
		if err != nil {
			return err
		}
		entries, err = queue.EntriesOf(state.Features[queue.ID])
		return err
	}})
	return entries, err
}

// ChangeQueue changes the queue of a thread and returns it. The change survives a crash of the process. A thread that is loaded and idle
// begins with the first entry that is added; further ones begin by themselves when a turn has completed. After a turn that failed or was
// interrupted, and in a thread that was not loaded at the time, they wait for another turn, for an addition, or for [Thread.StartQueued].
// Adding a message of a client that the queue has already, or whose turn has begun, changes nothing. An unknown entry is an error with
// the code [NotFound].
func (e Editor) ChangeQueue(ctx context.Context, id event.ThreadID, c QueueChange) (after []Queued, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		after, err = r.changeQueue(ctx, c)
		return err
	}, stored: func(s *store.Store) error {
		return branch.Amend(ctx, s, id, queue.ID, func(state thread.State) (data json.RawMessage, err error) {
			after, data, err = threadsocket.DecideQueue(func(feature string) json.RawMessage { return state.Features[feature] }, c)
			return data, err
		})
	}})
	return after, err
}

// Goal returns the goal of a thread; nil: it has none.
func (e Editor) Goal(ctx context.Context, id event.ThreadID) (g *Goal, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		g, err = r.goal(ctx)
		return err
	}, stored: func(s *store.Store) error {
		state, err := branch.Resume(ctx, s, id)
		g = goal.Of(state.Features[goal.FeatureID])
		return err
	}})
	return g, err
}

// ChangeGoal changes the goal of a thread and returns it; nil: it has none. The change survives a crash of the process. A thread that is
// loaded and idle works on an active goal at once. One that was not loaded works on it after its next turn. Without a goal to change, the
// error has the code [NotFound].
func (e Editor) ChangeGoal(ctx context.Context, id event.ThreadID, c GoalChange) (after *Goal, err error) {
	err = e.change(ctx, id, edit{running: func(r runner) (err error) {
		after, err = r.changeGoal(ctx, c)
		return err
	}, stored: func(s *store.Store) error {
		return branch.Amend(ctx, s, id, goal.FeatureID, func(state thread.State) (data json.RawMessage, err error) {
			cfg, err := e.hub.Configuration(ctx, Workspace{Dir: cmp.Or(state.Settings.Cwd, state.Start.Cwd)})
			if err != nil {
				return nil, err
			}
			if !cfg.Goals.Enabled || state.Start.Parent != "" {
				return nil, goal.ErrOff
			}
			data, after, err = goal.ChangeStored(state.Features[goal.FeatureID], state.Usage, c, cfg.Goals.MaxTokens)
			return data, err
		})
	}})
	return after, err
}
