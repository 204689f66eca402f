// Package branch takes turns of stored threads back, and makes threads that begin as others do.
//
// It owns: which turn a cut is meant at, where in the log it is, and what taking back and forking write. It must not know: how
// the log is kept, who asks, what a turn does.
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
	"github.com/gantry-agent/gantry/host/internal/features"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// listTurns is how to see which turns there are.
func listTurns(id event.ThreadID) string {
	return fmt.Sprintf("`gantry threads turns %s` lists them", id)
}

// Resume rebuilds a thread from what of its log counts.
func Resume(ctx context.Context, s *store.Store, id event.ThreadID) (thread.State, error) {
	return thread.Rebuild(s.EffectiveEvents(ctx, id, 0), features.All()...)
}

// Before plans to take back a turn and all behind it. turn is an id, the beginning of one, or the number of the turn among
// those that count, from 1.
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

// Last plans to take back the last n turns in which a user said something, with what else happened since the first of them. Of
// fewer than n it takes back all.
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

// cut plans to take back first and all behind it.
func cut(ctx context.Context, s *store.Store, id event.ThreadID, turns []store.TurnInfo, first store.TurnInfo) (thread.Cut, error) {
	c := thread.Cut{Event: event.ThreadReverted{Before: first.ID, From: first.FirstSeq, Through: first.FirstSeq - 1}}
	for _, t := range turns {
		if t.Reverted == 0 && t.FirstSeq >= first.FirstSeq {
			c.Event.Turns++
		}
	}
	var err error
	if c.State, err = thread.Rebuild(s.EffectiveEvents(ctx, id, c.Event.Through), features.All()...); err != nil {
		return c, fmt.Errorf("revert turn %s: %w", first.ID, err)
	}
	if len(c.State.Messages) == 0 {
		told, err := contextUpdateIn(ctx, s, id, first)
		if err != nil {
			return c, err
		}
		if told > 0 {
			c.Event.Through = told
			if c.State, err = thread.Rebuild(s.EffectiveEvents(ctx, id, told), features.All()...); err != nil {
				return c, fmt.Errorf("revert turn %s: %w", first.ID, err)
			}
		}
	}
	c.Event.Thread = event.Checkpoint{Model: c.State.Model, Settings: c.State.Settings, Usage: c.State.Usage, Features: c.State.Features}
	return c, nil
}

// contextUpdateIn is the event by which a turn told the model of its surroundings before anything was said; 0: it did not. Where nothing
// else is left of a conversation, that stays: it is still true, and providers have it in their caches.
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

// find resolves what a user calls a turn.
func find(id event.ThreadID, turns []store.TurnInfo, query string) (store.TurnInfo, error) {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return store.TurnInfo{}, hint.New("no turn specified", listTurns(id))
	}
	// An id may begin with digits, too: a short number is the turn's place.
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

// Point is where a thread is cut: before a turn, behind one that has ended, or, with neither, at its end.
type Point struct{ Before, Through string }

// Fork stores a thread that begins as another one and ends at a point of it, also in the middle of a turn. Turns that were taken
// back count as points, too: a fork goes on from them. The thread may run; it does not notice.
func Fork(ctx context.Context, s *store.Store, from event.ThreadID, at Point, name string) (event.ThreadID, error) {
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
	state, err := thread.Rebuild(s.EffectiveEvents(ctx, from, through), features.All()...)
	if err != nil {
		return "", fmt.Errorf("fork thread %s: %w", from, err)
	}
	state.Seq = through // behind the last event that counts there may be one that does not
	id := event.NewThreadID()
	bodies := state.Fork(from)
	if name != "" {
		bodies = append(bodies, event.ThreadNamed{Name: name})
	}
	return id, s.Fork(ctx, tailOf(id, through, state.OpenTurn, bodies))
}

// tailOf are the events of a copy behind those that were copied. turn is the one that was cut off.
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

// ofTurn tells what belongs to the turn that a fork cuts off.
func ofTurn(b event.Body) bool {
	switch b.(type) {
	case event.ThreadForked, event.ThreadNamed:
		return false
	}
	return true
}

// seq is the number of the last event before the point.
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

// ArchivedError says that nobody goes on with a thread.
type ArchivedError struct{ Thread event.ThreadID }

// Error implements error.
func (e *ArchivedError) Error() string {
	return hint.Line(fmt.Sprintf("thread %s is archived", e.Thread), e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *ArchivedError) NextStep() string {
	return fmt.Sprintf("`gantry threads unarchive %s` restores it", e.Thread)
}
