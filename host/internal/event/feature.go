package event

import "encoding/json"

// QueueFeature is the feature that keeps what the user has written for later turns.
const QueueFeature = "queue"

// GoalFeature is the feature that keeps what the thread is to reach.
const GoalFeature = "goal"

// FeatureChanged changes the state that a feature keeps with the thread.
type FeatureChanged struct {
	Feature string `json:"feature"`
	// Data says what changes; only the feature knows its form.
	Data json.RawMessage `json:"data,omitempty"`
}

func (FeatureChanged) Kind() string  { return "feature.changed" }
func (FeatureChanged) durable() bool { return true }
