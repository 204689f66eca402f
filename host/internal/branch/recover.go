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

// Recover stores a new thread with the intact events of a damaged one, and returns the damage. The new thread tells the model that
// events are missing. The damaged thread is not changed.
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
		state.Seq = damage.Good // events after the last effective one are copied as well
		return tailOf(id, damage.Good, state.OpenTurn, state.Recovered(from)), nil
	})
	return id, damage, err
}

// damageOf returns the damage of a thread: in its log, or in the tables that determine which events are effective.
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
		damage.Good = uint64(found.Events) // the log itself is intact, and the tables are derived from it again
		return damage, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, hint.With(fmt.Errorf("thread %s is not damaged", id), fmt.Sprintf("`gantry threads fork %s` copies it anyway", id))
}
