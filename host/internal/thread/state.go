package thread

import (
	"cmp"
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

// State is everything in a thread's log that is needed to continue the thread.
type State struct {
	Seq          uint64
	Start        event.ThreadStarted
	Model        event.Selection // of the next turn
	Settings     event.Settings
	Name         string
	Messages     []llm.Message
	ContextState *event.Reference // context that the messages contain; nil: it must be sent again
	Count        history.Count
	Usage        event.Tokens
	OpenTurn     event.TurnID // a turn without an end
	// Calls of the open turn that had started, including nested ones, and their ends as far as the log has them.
	Open   []event.CallStarted
	Ended  map[event.CallID]event.CallEnded
	Items  map[event.ItemID]event.Item // started and not completed
	Asked  []event.QuestionAsked       // not resolved
	Opened []event.SessionOpened       // not exited
	// Accepted is input that was acknowledged to its sender and is not in the history.
	Accepted []event.InputAccepted
	// Mail is unread mail, oldest first.
	Mail []event.Mail
	// Restored are files that were restored while the thread was not running; the model has not been told.
	Restored []string
	// Features are the states of features by id. The map is replaced, never changed.
	Features map[string]json.RawMessage
	features []Feature
}

// Rebuild returns the state of a thread from its log. events begins with the thread's start or its last compaction, and does not
// contain reverted events. Events of later versions are ignored.
func Rebuild(events iter.Seq2[event.Event, error], features ...Feature) (State, error) {
	s := State{Ended: map[event.CallID]event.CallEnded{}, Items: map[event.ItemID]event.Item{}, features: withMessages(features)}
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

// from restores what a checkpoint has about the events before it.
func (s *State) from(c event.Checkpoint) {
	s.Start, s.Model, s.Settings, s.Name, s.Usage = c.Started, c.Model, c.Settings, c.Name, c.Usage
	s.Opened, s.Accepted, s.Mail, s.Features = c.Sessions, c.Accepted, c.Mail, c.Features
	s.Open, s.Asked = c.Calls, c.Asked
	for _, it := range c.Items {
		s.Items[it.ID] = it
	}
}

// outline returns a copy with the fields that a checkpoint is made of.
func (s State) outline() State {
	out := State{Items: map[event.ItemID]event.Item{}}
	out.from(s.checkpointWithoutItems())
	maps.Copy(out.Items, s.Items)
	return out
}

// follow updates an outline with an event.
func (s *State) follow(e event.Event) {
	switch b := e.Body.(type) {
	case event.CallEnded:
		s.Open = slices.DeleteFunc(s.Open, func(o event.CallStarted) bool { return o.Call == b.Call })
	default:
		s.note(e)
	}
	s.applyFeatures(e)
}

// checkpoint returns what from needs.
func (s *State) checkpoint() event.Checkpoint {
	c := s.checkpointWithoutItems()
	for _, id := range slices.Sorted(maps.Keys(s.Items)) {
		c.Items = append(c.Items, s.Items[id])
	}
	return c
}

// checkpointWithoutItems is checkpoint without open items.
func (s State) checkpointWithoutItems() event.Checkpoint {
	return event.Checkpoint{
		Started: s.Start, Model: s.Model, Settings: s.Settings, Name: s.Name, Usage: s.Usage,
		Sessions: slices.Clone(s.Opened), Accepted: slices.Clone(s.Accepted), Mail: slices.Clone(s.Mail),
		Calls: s.running(), Asked: slices.Clone(s.Asked), Features: s.Features,
	}
}

// running returns the calls that have not ended.
func (s *State) running() (out []event.CallStarted) {
	for _, c := range s.Open {
		if _, ok := s.Ended[c.Call]; !ok {
			out = append(out, c)
		}
	}
	return out
}

func (s *State) apply(e event.Event) {
	switch b := e.Body.(type) {
	case event.HistoryAdded:
		s.Messages = append(s.Messages, b.Messages...)
		if slices.ContainsFunc(b.Messages, isRestoredNotice) {
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

// note applies an event to all fields but the messages.
func (s *State) note(e event.Event) {
	switch b := e.Body.(type) {
	case event.ThreadStarted:
		s.Start, s.Model = b, selected(b)
	case event.HistoryCompacted:
		s.OpenTurn = e.Turn
		s.Open = s.running() // calls of code, whose own call has returned
		clear(s.Ended)
	case event.ThreadNamed:
		s.Name = b.Name
	case event.ThreadForked:
		s.Start.ForkedFrom, s.Start.CacheKey = b.From, cmp.Or(s.Start.CacheKey, string(b.From))
		s.Mail = b.Thread.Mail
	case event.ThreadReverted:
		// The messages and their context are those at the cut: later ones were not applied.
		s.OpenTurn = ""
		clear(s.Ended)
		clear(s.Items)
		s.from(b.Thread)
		s.Open, s.Asked = nil, nil
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
		s.Usage = s.Usage.Max(b.Total) // reports of concurrent requests may be in either order
	case event.CallStarted:
		if b.Attempt <= 1 {
			delete(s.Ended, b.Call) // an earlier call with the same id
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
