package thread

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// State is what the log says of a thread: enough to go on with it.
type State struct {
	Seq          uint64
	Start        event.ThreadStarted
	Model        event.Selection // that the next turn asks
	Settings     event.Settings
	Name         string
	Messages     []llm.Message
	ContextState *event.Reference // what they tell of the model's surroundings; nil: it must be said anew
	Count        history.Count
	Usage        event.Tokens
	OpenTurn     event.TurnID // a turn that began and never ended
	// Calls of the open turn that the journal says were started, nested ones too, and the ends that it knows of.
	Open   []event.CallStarted
	Ended  map[event.CallID]event.CallEnded
	Items  map[event.ItemID]event.Item // started and not completed
	Asked  []event.QuestionAsked       // never resolved
	Opened []event.SessionOpened       // never exited
	// Accepted was promised to who said it, and is not in the history.
	Accepted []event.InputAccepted
	// Mail waits to be read, oldest first.
	Mail []event.Mail
	// Restored are files whose changes were undone while nobody ran the thread: the model does not know yet.
	Restored []string
	// Features are the states of features, by id. The map is not changed, but replaced.
	Features map[string]json.RawMessage
	features []Feature
}

// Rebuild folds a thread's log into its state, from its beginning or from the last time that its history was compacted: the
// events that count, without those that were taken back. Events of later versions are ignored.
func Rebuild(events iter.Seq2[event.Event, error], features ...Feature) (State, error) {
	s := State{Ended: map[event.CallID]event.CallEnded{}, Items: map[event.ItemID]event.Item{}, features: features}
	first := true
	for e, err := range events {
		if err != nil {
			return State{}, err
		}
		if first {
			switch b := e.Body.(type) {
			case event.ThreadStarted:
				s.Start, s.Model = b, selected(b)
			case event.HistoryCompacted:
				s.from(b.Thread)
			default:
				return State{}, fmt.Errorf("the log begins with %q instead of the thread's start", e.Body.Kind())
			}
			first = false
		}
		s.Seq = e.Seq
		s.apply(e)
	}
	if first {
		return State{}, errors.New("the log has no events")
	}
	return s, nil
}

// from takes what a checkpoint remembers of what was before it.
func (s *State) from(c event.Checkpoint) {
	s.Start, s.Model, s.Settings, s.Name, s.Usage = c.Started, c.Model, c.Settings, c.Name, c.Usage
	s.Opened, s.Accepted, s.Mail, s.Features = c.Sessions, c.Accepted, c.Mail, c.Features
	for _, it := range c.Items {
		s.Items[it.ID] = it
	}
}

// outline is a copy of what a checkpoint is made of.
func (s State) outline() State {
	out := State{Items: map[event.ItemID]event.Item{}}
	out.from(s.remembered())
	maps.Copy(out.Items, s.Items)
	return out
}

// follow keeps an outline up to date.
func (s *State) follow(e event.Event) {
	switch e.Body.(type) {
	case event.CallDecided, event.CallStarted, event.CallEnded, event.QuestionAsked, event.QuestionResolved: // of the turn that runs
	default:
		s.note(e)
	}
	s.applyFeatures(e)
}

// checkpoint is what has to be remembered for from.
func (s *State) checkpoint() event.Checkpoint {
	c := s.remembered()
	for _, id := range slices.Sorted(maps.Keys(s.Items)) {
		c.Items = append(c.Items, s.Items[id])
	}
	return c
}

// remembered is a checkpoint without items.
func (s State) remembered() event.Checkpoint {
	return event.Checkpoint{
		Started: s.Start, Model: s.Model, Settings: s.Settings, Name: s.Name, Usage: s.Usage,
		Sessions: slices.Clone(s.Opened), Accepted: slices.Clone(s.Accepted), Mail: slices.Clone(s.Mail),
		Features: s.Features,
	}
}

func (s *State) apply(e event.Event) {
	switch b := e.Body.(type) {
	case event.HistoryAdded:
		s.Messages = append(s.Messages, b.Messages...)
		if slices.ContainsFunc(b.Messages, tellsOfRestored) {
			s.Restored = nil
		}
	case event.FilesChanged:
		if len(b.Undoes) > 0 {
			for _, c := range b.Changes {
				s.Restored = append(s.Restored, c.Path)
			}
		}
	case event.HistoryCompacted:
		s.Messages = slices.Clip(b.Messages)
		s.Count = history.Compacted(len(b.Messages), b.After)
		s.ContextState = nil
	case event.UsageReported:
		if used := usage.TokensOf(b.Usage); b.Call == "" && b.Active > 0 {
			if used.Total == 0 {
				used.Total, used.Input = b.Active, b.Active
			}
			s.Count = s.Count.Counted(len(s.Messages), used.Total, used.Input)
		}
	}
	s.note(e)
	s.applyFeatures(e)
}

// note folds what an event says beside messages.
func (s *State) note(e event.Event) {
	switch b := e.Body.(type) {
	case event.ThreadStarted:
		s.Start, s.Model = b, selected(b)
	case event.HistoryCompacted:
		s.OpenTurn = e.Turn
		s.Open = nil // a history is not compacted while a call runs
		clear(s.Ended)
	case event.ThreadNamed:
		s.Name = b.Name
	case event.ThreadForked:
		s.Start.ForkedFrom = b.From
		s.Mail = b.Thread.Mail
	case event.ThreadReverted:
		// Messages, and what they tell of the surroundings, are those up to the cut: what is behind it was not folded.
		s.OpenTurn, s.Open, s.Asked = "", nil, nil
		clear(s.Ended)
		clear(s.Items)
		s.from(b.Thread)
	case event.TurnStarted:
		s.OpenTurn = e.Turn
	case event.ModelChanged:
		s.Model, s.Settings.Model = b.To, ""
	case event.SettingsChanged:
		s.Settings = b.Settings
	case event.TurnEnded:
		s.OpenTurn, s.Usage = "", b.Usage
		s.Open, s.Asked = nil, nil
		clear(s.Ended)
		clear(s.Items)
	case event.ContextUpdated:
		s.ContextState = &b.Reference
	case event.UsageReported:
		s.Usage = s.Usage.Max(b.Total) // reports of requests that were made side by side may stand in either order
	case event.CallStarted:
		if b.Attempt <= 1 {
			delete(s.Ended, b.Call) // of an earlier call to which the model gave the same id
			s.Open = slices.DeleteFunc(s.Open, func(o event.CallStarted) bool { return o.Call == b.Call })
			s.Open = append(s.Open, b)
		}
	case event.CallEnded:
		s.Ended[b.Call] = b
	case event.ItemStarted:
		s.Items[b.Item.ID] = b.Item
	case event.ItemCompleted:
		delete(s.Items, b.Item.ID)
		s.Accepted = slices.DeleteFunc(s.Accepted, func(a event.InputAccepted) bool { return a.Item == b.Item.ID })
		s.Mail = slices.DeleteFunc(s.Mail, func(m event.Mail) bool { return m.Item == b.Item.ID })
	case event.MailPosted:
		s.Mail = append(s.Mail, b.Mail)
	case event.InputAccepted:
		s.Accepted = append(s.Accepted, b)
	case event.QuestionAsked:
		s.Asked = append(s.Asked, b)
	case event.QuestionResolved:
		for i, q := range s.Asked {
			if q.ID == b.ID {
				s.Asked = append(s.Asked[:i:i], s.Asked[i+1:]...)
				break
			}
		}
	case event.SessionOpened:
		s.Opened = append(s.Opened, b)
	case event.SessionExited:
		for i, o := range s.Opened {
			if o.Session == b.Session {
				s.Opened = append(s.Opened[:i:i], s.Opened[i+1:]...)
				break
			}
		}
	}
}
