// Package branch reverts turns of stored threads, forks threads, and recovers damaged ones.
//
// It owns: finding the turn that a user names and its position in the log, and the events that reverts and forks write. It must not
// know: how the log is stored, which front end asks, what a turn does.
//
// Start with [Before] and [Fork].
package branch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// listTurns returns the next step of listing the turns of a thread.
func listTurns(id event.ThreadID) string {
	return fmt.Sprintf("`gantry threads turns %s` lists them", id)
}

// Resume rebuilds the state of a thread from the effective events of its log.
func Resume(ctx context.Context, s *store.Store, id event.ThreadID) (thread.State, error) {
	return Standing(ctx, s, id, 0)
}

// Before plans the revert of a turn and all later ones. turn is an ID, a prefix of an ID, or the number of the turn among those that
// are not reverted, from 1.
func Before(ctx context.Context, s *store.Store, id event.ThreadID, turn string) (thread.Cut, error) {
	turns, err := s.Turns(ctx, id)
	if err != nil {
		return thread.Cut{}, err
	}
	t, err := find(id, turns, turn)
	if err != nil {
		return thread.Cut{}, err
	}
	if t.Reverted > 0 {
		return thread.Cut{}, hint.With(fmt.Errorf("turn %s has already been reverted", t.ID), fmt.Sprintf("`gantry threads fork %s --through %s` continues from it", id, t.ID))
	}
	return cut(ctx, s, id, turns, t)
}

// Last plans the revert of the last n turns with input of a user, and of everything after the first of them. If there are fewer than
// n, it reverts all.
func Last(ctx context.Context, s *store.Store, id event.ThreadID, n int) (thread.Cut, error) {
	if n < 1 {
		return thread.Cut{}, hint.With(fmt.Errorf("invalid number of turns: %d", n), "use a number of at least 1")
	}
	turns, err := s.Turns(ctx, id)
	if err != nil {
		return thread.Cut{}, err
	}
	var first *store.TurnInfo
	for i := len(turns) - 1; i >= 0 && n > 0; i-- {
		if turns[i].Reverted == 0 && turns[i].HasInput {
			first = &turns[i]
			n--
		}
	}
	if first == nil {
		return thread.Cut{}, fmt.Errorf("thread %s has no turn to revert", id)
	}
	return cut(ctx, s, id, turns, *first)
}

// cut plans the revert of first and everything after it.
func cut(ctx context.Context, s *store.Store, id event.ThreadID, turns []store.TurnInfo, first store.TurnInfo) (thread.Cut, error) {
	c := thread.Cut{Event: event.ThreadReverted{Before: first.ID, From: first.FirstSeq, Through: first.FirstSeq - 1}}
	for _, t := range turns {
		if t.Reverted == 0 && t.FirstSeq >= first.FirstSeq {
			c.Event.Turns++
		}
	}
	var err error
	if c.State, err = Standing(ctx, s, id, c.Event.Through); err != nil {
		return c, fmt.Errorf("revert turn %s: %w", first.ID, err)
	}
	if len(c.State.Messages) == 0 {
		told, err := contextUpdateIn(ctx, s, id, first)
		if err != nil {
			return c, err
		}
		if told > 0 {
			c.Event.Through = told
			if c.State, err = Standing(ctx, s, id, told); err != nil {
				return c, fmt.Errorf("revert turn %s: %w", first.ID, err)
			}
		}
	}
	c.Event.Thread = event.Checkpoint{Model: c.State.Model, Settings: c.State.Settings, Usage: c.State.Usage, Features: c.State.Features}
	return c, nil
}

// contextUpdateIn returns the number of the event with which a turn described the context to the model before the first message, or 0. If a
// revert leaves nothing else of a conversation, that event remains effective: it is still correct, and providers have it in their
// caches.
func contextUpdateIn(ctx context.Context, s *store.Store, id event.ThreadID, t store.TurnInfo) (told uint64, err error) {
	for e, err := range s.Events(ctx, id, t.FirstSeq-1) {
		if err != nil {
			if _, unreadable := errors.AsType[*store.DecodeError](err); unreadable {
				continue
			}
			return 0, err
		}
		if e.Turn != t.ID {
			continue
		}
		switch b := e.Body.(type) {
		case event.ContextUpdated:
			told = e.Seq
		case event.HistoryAdded:
			for _, m := range b.Messages {
				if history.FromUser(m) || history.IsMail(m) {
					return told, nil
				}
			}
		case event.TurnEnded, event.ItemStarted, event.HistoryCompacted:
			return told, nil
		}
	}
	return told, nil
}

// find returns the turn that a user names.
func find(id event.ThreadID, turns []store.TurnInfo, query string) (store.TurnInfo, error) {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return store.TurnInfo{}, hint.New("no turn specified", listTurns(id))
	}
	// IDs may begin with digits as well; a short number is the number of a turn.
	if n, err := strconv.Atoi(query); err == nil && len(query) < 6 {
		for _, t := range turns {
			if t.Reverted == 0 {
				if n--; n == 0 {
					return t, nil
				}
			}
		}
		return store.TurnInfo{}, hint.With(fmt.Errorf("turn not found: thread %s has no turn number %s", id, query), listTurns(id))
	}
	found := slices.DeleteFunc(slices.Clone(turns), func(t store.TurnInfo) bool { return !strings.HasPrefix(string(t.ID), query) })
	switch {
	case len(found) == 0:
		return store.TurnInfo{}, hint.With(fmt.Errorf("turn not found: %s", query), listTurns(id))
	case len(found) > 1 && found[0].ID != event.TurnID(query):
		return store.TurnInfo{}, hint.With(fmt.Errorf("%q matches several turns of thread %s", query, id), "use more of the id, or its number; "+listTurns(id))
	}
	return found[0], nil
}

// Point is a position in a thread: before a turn, after a turn that has ended, or the end of the thread if both are empty.
type Point struct{ Before, Through string }

// Fork stores a new thread that begins as a copy of another thread up to a point, which may be in the middle of a turn or in a reverted
// one. The other thread, which is in the store s, may be running; it is not affected. The new one is stored in to, which may be the same
// store.
func Fork(ctx context.Context, s, to *store.Store, from event.ThreadID, at Point, name string) (event.ThreadID, error) {
	info, err := s.Thread(ctx, string(from))
	if err != nil {
		return "", err
	}
	if !info.Archived.IsZero() {
		return "", &ArchivedError{Thread: from}
	}
	through, err := at.seq(ctx, s, info)
	if err != nil {
		return "", err
	}
	state, err := Standing(ctx, s, from, through)
	if err != nil {
		return "", fmt.Errorf("fork thread %s: %w", from, err)
	}
	state.Seq = through // events after the last effective one are copied as well
	id := event.NewThreadID()
	bodies := state.Fork(from)
	if name != "" {
		bodies = append(bodies, event.ThreadNamed{Name: name})
	}
	if g := info.Git; g != (store.Git{}) {
		bodies = append(bodies, event.ThreadDescribed{SHA: &g.SHA, Branch: &g.Branch, Origin: &g.Origin})
	}
	tail := tailOf(id, through, state.OpenTurn, bodies)
	if s != to {
		return id, s.ForkTo(ctx, to, tail)
	}
	return id, s.Fork(ctx, tail)
}

// tailOf returns the events of a new thread after the copied ones. turn is the turn that the copy interrupts.
func tailOf(id event.ThreadID, through uint64, turn event.TurnID, bodies []event.Body) []event.Event {
	tail := make([]event.Event, len(bodies))
	for i, b := range bodies {
		tail[i] = event.Event{Seq: through + 1 + uint64(i), Thread: id, Time: time.Now().UTC(), Body: b}
		if ofTurn(b) {
			tail[i].Turn = turn
		}
	}
	return tail
}

// ofTurn reports whether an event belongs to the turn that a fork interrupts.
func ofTurn(b event.Body) bool {
	switch b.(type) {
	case event.ThreadForked, event.ThreadNamed, event.ThreadDescribed:
		return false
	}
	return true
}

// seq returns the number of the last event before the point.
func (p Point) seq(ctx context.Context, s *store.Store, info store.ThreadInfo) (uint64, error) {
	if p.Before == "" && p.Through == "" {
		return info.Seq, nil
	}
	if p.Before != "" && p.Through != "" {
		return 0, errors.New("specify a turn to fork before or one to fork after, not both")
	}
	turns, err := s.Turns(ctx, info.ID)
	if err != nil {
		return 0, err
	}
	if p.Before != "" {
		t, err := find(info.ID, turns, p.Before)
		return t.FirstSeq - 1, err
	}
	t, err := find(info.ID, turns, p.Through)
	if err == nil && t.LastSeq == 0 {
		err = hint.With(fmt.Errorf("turn %s has not ended", t.ID), "fork the thread without naming a turn; the fork then includes the turn as far as it has got")
	}
	return t.LastSeq, err
}

// ArchivedError says that a thread can't be continued because it is archived.
type ArchivedError struct{ Thread event.ThreadID }

// Error implements error.
func (e *ArchivedError) Error() string {
	return hint.Line(fmt.Sprintf("thread %s is archived", e.Thread), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *ArchivedError) NextStep() string {
	return fmt.Sprintf("`gantry threads unarchive %s` restores it", e.Thread)
}
