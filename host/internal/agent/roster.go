package agent

import (
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
)

// FeatureID is the ID of [Feature].
const FeatureID = "agents"

// Feature keeps with a root which agents it has, and with each thread whose answers it has got.
type Feature struct{}

// roster is the feature's state.
type roster struct {
	Agents []entry `json:"agents,omitempty"` // in the order in which they were spawned; of a root
	// Answers are the newest answers that have arrived, by the author's path: an answer is never posted twice.
	Answers map[string]event.ItemID `json:"answers,omitempty"`
}

// entry is an agent in a roster.
type entry struct {
	Path     string         `json:"path"`
	Thread   event.ThreadID `json:"thread"`
	Parent   event.ThreadID `json:"parent"`
	Nickname string         `json:"nickname,omitempty"`
	Role     string         `json:"role,omitempty"`
	State    State          `json:"state"`
	Text     string         `json:"text,omitempty"` // of the state, shortened
	// Stopped: the agent was at work when its host ended, and the model of its parent has not been told.
	Stopped bool `json:"stopped,omitempty"`
}

// change is the data of an [event.FeatureChanged].
type change struct {
	Spawned *entry `json:"spawned,omitempty"`
	Failed  string `json:"failed,omitempty"` // the path of an agent whose spawn failed
	Path    string `json:"path,omitempty"`
	State   State  `json:"state,omitempty"` // of the agent at Path, from now on
	Text    string `json:"text,omitempty"`
	Stopped bool   `json:"stopped,omitempty"`
}

// ID implements thread.Feature.
func (Feature) ID() string { return FeatureID }

// Apply implements thread.Feature.
func (Feature) Apply(raw json.RawMessage, e event.Event) json.RawMessage {
	switch b := e.Body.(type) {
	case event.FeatureChanged:
		if b.Feature != FeatureID {
			return raw
		}
		var c change
		if json.Unmarshal(b.Data, &c) != nil {
			return raw
		}
		return rosterOf(raw).with(c).encode(raw)
	case event.MailPosted:
		if b.Mail.Type != event.MailAnswer {
			return raw
		}
		r := rosterOf(raw)
		if r.Answers == nil {
			r.Answers = map[string]event.ItemID{}
		}
		r.Answers[b.Mail.Author] = b.Mail.Item
		// In one step with the answer: nobody must be told later that the agent was stopped.
		for i := range r.Agents {
			if a := &r.Agents[i]; a.Path == b.Mail.Author {
				a.State, a.Stopped = Completed, false
			}
		}
		return r.encode(raw)
	case event.HistoryAdded:
		if raw == nil || !slices.ContainsFunc(b.Messages, history.IsAgentsStopped) {
			return raw
		}
		r := rosterOf(raw)
		for i := range r.Agents {
			r.Agents[i].Stopped = false
		}
		return r.encode(raw)
	case event.ThreadForked: // a copy has no agents
		return nil
	}
	return raw
}

// rosterOf decodes a state; what this build can't read is no state.
func rosterOf(raw json.RawMessage) (r roster) {
	if raw == nil || json.Unmarshal(raw, &r) != nil {
		return roster{}
	}
	return r
}

func (r roster) encode(otherwise json.RawMessage) json.RawMessage {
	out, err := json.Marshal(r)
	if err != nil { // strings only
		return otherwise
	}
	return out
}

func (r roster) with(c change) roster {
	if c.Spawned != nil {
		r.Agents = append(r.Agents, *c.Spawned)
	}
	if c.Failed != "" {
		r.Agents = slices.DeleteFunc(r.Agents, func(e entry) bool { return e.Path == c.Failed })
	}
	for i := range r.Agents {
		if e := &r.Agents[i]; e.Path == c.Path {
			e.State, e.Text, e.Stopped = c.State, c.Text, c.Stopped
		}
	}
	return r
}

func changed(c change) event.FeatureChanged {
	data, err := json.Marshal(c)
	if err != nil { // strings only
		panic("agent: marshal change: " + err.Error())
	}
	return event.FeatureChanged{Feature: FeatureID, Data: data}
}
