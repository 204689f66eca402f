package thread

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
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

// Starter is a [Feature] that may begin a turn of its own when the thread is idle: a goal that is not reached yet. No feature of
// gantry does so yet. For input of the user, see [Supplier].
//
// The thread asks in the order of [Config.Features], until one begins a turn: after a turn that has completed, when no submission
// waits and no mail asks for a turn; and after [Thread.Wake]. It does not ask after a turn that failed or was interrupted, nor while
// the thread is archived or is to end after its turn.
type Starter interface {
	Feature
	// NextTurn returns the messages that the turn begins with, which only the model sees; none: the feature begins no turn. An error
	// is reported in the thread, and the next feature is asked. NextTurn must not block, and it must not call the thread.
	NextTurn(state json.RawMessage) ([]llm.Message, error)
}

// Wake makes the thread ask its [Starter] features, at once if it is idle and otherwise when the running turn has completed. A feature
// that has changed its state outside a turn calls it. Wake never blocks.
func (t *Thread) Wake() {
	select {
	case t.woken <- struct{}{}:
	default: // the owner sees the one before
	}
}

// Signal wakes callers that wait for something that the running turn has not read yet.
func (t *Thread) Signal() *turn.Signal { return t.signal }

// asleep reports whether no turn begins by itself.
func (o *owner) asleep() bool { return o.leaves || o.archived.Load() }

func (o *owner) wake() []action {
	o.asks = true
	if o.busy() {
		return nil
	}
	return o.next()
}

// idle asks the starters for the next turn. Each of them is asked once, however it answers.
func (o *owner) idle() (acts []action) {
	if !o.asks || o.asleep() {
		return nil
	}
	if acts := o.supplies(); acts != nil {
		return acts
	}
	o.asks = false
	for _, s := range o.starters {
		notes, err := nextTurn(s, o.state(s.ID()))
		switch {
		case err != nil:
			acts = append(acts, report{s.ID(), err})
		case len(notes) > 0:
			return append(acts, startTurn{submitMsg{
				Submission: Submission{Input: turn.Input{Notes: notes}}, accepted: make(chan Accepted, 1), taken: true,
			}})
		}
	}
	return acts
}

// nextTurn turns a panic into a [*panicError]: it costs the feature its turn, and the thread nothing.
func nextTurn(s Starter, state json.RawMessage) (notes []llm.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return s.NextTurn(state)
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("internal error: %v", e.value) }

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
