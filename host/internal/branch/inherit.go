package branch

import (
	"context"
	"fmt"
	"iter"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/features"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Standing rebuilds the state of a thread as of event through (0: its last event), with the history that it began with.
func Standing(ctx context.Context, s *store.Store, id event.ThreadID, through uint64) (thread.State, error) {
	return thread.Rebuild(inheriting(ctx, s, s.EffectiveEvents(ctx, id, through)), features.All()...)
}

// inheriting puts the history that a thread inherits behind its start, as if it had been added there. Each thread inherits from one that is
// older, so this ends.
func inheriting(ctx context.Context, s *store.Store, events iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for e, err := range events {
			if !yield(e, err) {
				return
			}
			b, ok := e.Body.(event.ThreadStarted)
			if !ok || err != nil || b.Inherited == nil {
				continue
			}
			ms, err := inherited(ctx, s, *b.Inherited)
			e.Body = event.HistoryAdded{Messages: ms}
			if !yield(e, err) {
				return
			}
		}
	}
}

func inherited(ctx context.Context, s *store.Store, i event.Inherited) ([]llm.Message, error) {
	of, err := Standing(ctx, s, i.From, i.Through)
	if err != nil {
		return nil, fmt.Errorf("the history of thread %s, with which this one begins: %w", i.From, err)
	}
	return history.Inherit(of.Messages[:min(i.Messages, len(of.Messages))], i.Turns), nil
}
