package codemode

import (
	"encoding/json"
	"maps"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// FeatureID is the ID of [Feature].
const FeatureID = "codemode"

// Feature keeps what scripts have stored with their thread, and which cells run.
type Feature struct{}

// state is the feature's state.
type state struct {
	Values map[string]json.RawMessage `json:"values,omitempty"`
	Last   int                        `json:"last,omitempty"` // ID of the newest cell
	// Running are the cells that have begun and not ended.
	Running []int `json:"running,omitempty"`
	// Copied is the newest cell of the thread that this one was copied from. Those up to it run there, if at all.
	Copied int `json:"copied,omitempty"`
}

// change is the data of an [event.FeatureChanged].
type change struct {
	Begun int `json:"begun,omitempty"`
	Ended int `json:"ended,omitempty"`
	// Stored and Deleted are what the cell that has ended has stored.
	Stored  map[string]json.RawMessage `json:"stored,omitempty"`
	Deleted []string                   `json:"deleted,omitempty"`
}

// ID implements thread.Feature.
func (Feature) ID() string { return FeatureID }

// Apply implements thread.Feature.
func (Feature) Apply(raw json.RawMessage, e event.Event) json.RawMessage {
	s := stateOf(raw)
	switch b := e.Body.(type) {
	case event.FeatureChanged:
		var c change
		if b.Feature != FeatureID || json.Unmarshal(b.Data, &c) != nil {
			return raw
		}
		s.apply(c)
	case event.ThreadForked:
		if s.Copied == s.Last {
			return raw
		}
		s.Copied = s.Last
	default:
		return raw
	}
	out, err := json.Marshal(s)
	if err != nil { // values come from JSON
		return raw
	}
	return out
}

// stateOf decodes a state; what this build can't read is no state.
func stateOf(raw json.RawMessage) (s state) {
	if raw == nil || json.Unmarshal(raw, &s) != nil {
		return state{}
	}
	return s
}

func (s *state) apply(c change) {
	if c.Begun != 0 {
		s.Last = max(s.Last, c.Begun)
		s.Running = append(s.Running, c.Begun)
	}
	if c.Ended != 0 {
		running := s.Running
		s.Running = nil
		for _, id := range running {
			if id != c.Ended {
				s.Running = append(s.Running, id)
			}
		}
	}
	if len(c.Stored) > 0 {
		if s.Values == nil {
			s.Values = map[string]json.RawMessage{}
		}
		maps.Copy(s.Values, c.Stored)
	}
	for _, key := range c.Deleted {
		delete(s.Values, key)
	}
}
