package branch

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/features"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// Recover stores a thread that has what is whole of a damaged one, which stays as it is, and tells what was found. In it the
// model is told that something is missing.
func Recover(ctx context.Context, s *store.Store, from event.ThreadID) (event.ThreadID, *store.DamageError, error) {
	damage, err := damageOf(ctx, s, from)
	if err != nil {
		return "", nil, err
	}
	if damage.Good == 0 {
		return "", nil, damage
	}
	id := event.NewThreadID()
	err = s.Recover(ctx, from, damage.Good, id, func(standing iter.Seq2[event.Event, error]) ([]event.Event, error) {
		state, err := thread.Rebuild(standing, features.All()...)
		if err != nil {
			return nil, err
		}
		state.Seq = damage.Good // behind the last event that counts there may be one that does not
		return tailOf(id, damage.Good, state.OpenTurn, state.Recovered(from)), nil
	})
	return id, damage, err
}

// damageOf looks for the damage of a thread: in its log, and in what says which of it counts.
func damageOf(ctx context.Context, s *store.Store, id event.ThreadID) (*store.DamageError, error) {
	found, err := s.Check(ctx, id)
	if err != nil {
		return nil, err
	}
	if found.Damage != nil {
		return found.Damage, nil
	}
	_, err = Resume(ctx, s, id)
	if damage, ok := errors.AsType[*store.DamageError](err); ok {
		damage.Good = uint64(found.Events) // the log itself is whole, and what is derived from it is made anew
		return damage, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, hint.With(fmt.Errorf("thread %s is not damaged", id), fmt.Sprintf("`gantry threads fork %s` copies it anyway", id))
}
