package goal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
)

// FeatureID is the ID of [Feature].
const FeatureID = event.GoalFeature

// Feature keeps the goal with the thread. A fork has the goal too, and works on it after its first turn.
type Feature struct{}

// ID implements thread.Feature.
func (Feature) ID() string { return FeatureID }

// Apply implements thread.Feature.
func (Feature) Apply(raw json.RawMessage, e event.Event) json.RawMessage {
	if b, ok := e.Body.(event.FeatureChanged); ok && b.Feature == FeatureID {
		return applied(raw, b.Data, e.Time)
	}
	if raw == nil || !concerns(raw, e.Body) {
		return raw
	}
	s := stateOf(raw)
	if s == nil {
		return raw
	}
	switch b := e.Body.(type) {
	case event.TurnStarted:
		s.Own, s.Calls = false, false
	case event.HistoryAdded:
		s.Own = true
	case event.ItemCompleted:
		if b.Item.Type == event.ItemUserMessage {
			s.Idle, s.Same, s.Last = 0, 0, ""
		} else {
			s.Calls = true
		}
	case event.TurnEnded:
		s.ended(b, e.Time)
	}
	return s.encode(raw)
}

// concerns reports whether an event may change a state that is not nil. It spares most events the decoding of the state.
func concerns(raw json.RawMessage, b event.Body) bool {
	switch b := b.(type) {
	case event.TurnStarted:
		return !b.Resumed
	case event.TurnEnded:
		return true
	case event.HistoryAdded:
		return slices.ContainsFunc(b.Messages, history.IsGoalContinued)
	case event.ItemCompleted:
		if b.Item.Type == event.ItemUserMessage {
			return true
		}
		return b.Item.Call != "" && progress(b.Item) && !bytes.Contains(raw, []byte(`"calls":true`))
	}
	return false
}

// progress reports whether a call is more than talk about the work.
func progress(it event.Item) bool {
	return it.Type != event.ItemPlan && it.Tool != getTool && it.Tool != createTool && it.Tool != updateTool
}

// applied returns the state after a recorded change.
func applied(raw, data json.RawMessage, at time.Time) json.RawMessage {
	var r recorded
	if json.Unmarshal(data, &r) != nil {
		return raw
	}
	s := stateOf(raw)
	if r.Kind == created {
		if s = begin(r, at); s == nil {
			return raw
		}
		return s.encode(raw)
	}
	if s == nil || s.ID != r.Goal {
		return raw
	}
	switch r.Kind {
	case cleared:
		return nil
	case accounted, updated:
		s.charge(r.Charge, at)
		if r.Kind == updated {
			s.change(r.Change)
		}
	default: // of a later version
		return raw
	}
	return s.encode(raw)
}

func (s *state) encode(otherwise json.RawMessage) json.RawMessage {
	out, err := json.Marshal(s)
	if err != nil { // strings and numbers only
		return otherwise
	}
	return out
}

// escape keeps a text from ending the element that it is in.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
