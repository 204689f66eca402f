package thread

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Feature keeps state of its own with a thread: a goal, a plan, what was remembered. The state is JSON that only the feature
// understands. It is derived from the thread's events, so it survives a restart and a fork, and goes back when turns are taken
// back; a compaction keeps it in its checkpoint.
type Feature interface {
	// ID is the feature's key in checkpoints and in [event.FeatureChanged]; it never changes.
	ID() string
	// Apply returns the state after an event; nil: there is none. It is called for every durable event that counts, in order, and
	// returns the same state for the same events: it looks at nothing else. It does not change state, but returns another one. It
	// must not block, and it must not call the thread.
	Apply(state json.RawMessage, e event.Event) json.RawMessage
}

// applyFeatures folds an event into the states of the features. States of features that this build does not have stay as the
// last checkpoint has them.
func (s *State) applyFeatures(e event.Event) {
	for _, f := range s.features {
		was := s.Features[f.ID()]
		is := f.Apply(was, e)
		if bytes.Equal(was, is) {
			continue
		}
		next := maps.Clone(s.Features) // checkpoints share the map
		if next == nil {
			next = map[string]json.RawMessage{}
		}
		if next[f.ID()] = is; is == nil {
			delete(next, f.ID())
		}
		s.Features = next
	}
}

// Feature returns the state of a feature as of the last event published; nil: there is none. The caller must not change it.
// [Thread.Publish] of an [event.FeatureChanged] changes the state.
func (t *Thread) Feature(id string) json.RawMessage { return (*t.bus.features.Load())[id] }
