package thread

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// repairPolicy has the texts for closing what was open at the end of a log, for one cause of such an end.
type repairPolicy struct {
	reason     string // reason of the turn's end
	marker     llm.Message
	unknown    string // output of a call that had started
	notStarted string
	files      bool // tell the model about files that were restored meanwhile
	always     bool // add the marker even if no turn was open
	mail       bool // the copy keeps unread mail
	sessions   bool // tell the model which sessions the copy lacks
}

var (
	hostStopped = repairPolicy{
		reason: "the host stopped",
		marker: turn.HostStopped,
		unknown: "outcome unknown: the call had started when the host stopped, and it was not run again. It may have " +
			"taken effect in part or in full; check before you repeat it.",
		notStarted: "aborted: the host stopped before the call was started; it had no effect.",
		files:      true,
	}
	forkedMidTurn = repairPolicy{
		reason: "the thread was forked in the middle of this turn",
		marker: turn.Forked,
		unknown: "outcome unknown: the call was running when this conversation was copied from another one, where it goes on. " +
			"Whatever it does takes effect for both; check before you repeat it.",
		notStarted: "aborted: this conversation was copied from another one before the call was started. It may run there.",
		sessions:   true,
	}
	recordLost = repairPolicy{
		reason: "the record of what followed is damaged",
		marker: llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<" + history.RecordLost + ">\nWhat followed here was stored on a " +
			"damaged disk and is lost. Files and processes may be in a state that this conversation says nothing of: look before you rely " +
			"on what it says of them.\n</" + history.RecordLost + ">"}}},
		unknown: "outcome unknown: the record of this conversation is damaged behind the start of the call, and it was not run again. It may " +
			"have taken effect in part or in full; check before you repeat it.",
		notStarted: "outcome unknown: the record of this conversation is damaged before it says whether the call was started. Check whether it " +
			"has taken effect before you repeat it.",
		files:  true,
		always: true,
		mail:   true,
	}
)

// lostOutputText is for logs of versions that did not store outputs with the end of a call.
const lostOutputText = "the call had ended (%s) when the host stopped, but its output was lost. It was not run again."

// repair closes what the log left open, in the log and in h: each call gets an accurate output, sessions are lost, questions are
// cancelled, accepted input is added to the history, and the turn is interrupted.
func (s *State) repair(h *history.History, why repairPolicy) []event.Body {
	var bodies []event.Body
	var added []llm.Message
	for _, o := range s.Opened {
		bodies = append(bodies, event.SessionExited{Session: o.Session, How: "lost"})
	}
	if len(s.Opened) > 0 && why.sessions {
		added = append(added, withoutSessions(s.Opened))
	}
	s.Opened = nil
	for _, q := range s.Asked {
		bodies = append(bodies, event.QuestionResolved{ID: q.ID, By: "cancelled"})
	}
	s.Asked = nil
	started := map[string]bool{}
	for _, c := range s.Open {
		started[string(topOf(c))] = true
		if _, ok := s.Ended[c.Call]; !ok {
			bodies = append(bodies, event.CallEnded{Call: c.Call, Outcome: event.OutcomeUnknown, Message: why.reason})
		}
	}
	var outputs []llm.Message
	open := map[event.CallID]bool{}
	for _, c := range h.Unanswered() {
		outputs = append(outputs, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{s.output(c, started[c.ID], why)}})
		open[event.CallID(c.ID)] = true
	}
	added = append(outputs, added...) // outputs follow their calls
	for _, id := range slices.Sorted(maps.Keys(s.Items)) {
		it := s.Items[id]
		it.Status = event.StatusAborted
		bodies = append(bodies, event.ItemCompleted{Item: it})
	}
	for _, in := range s.Accepted {
		added = append(added, in.Message)
		bodies = append(bodies, event.ItemCompleted{Item: turn.UserItem(turn.Input{Parts: in.Message.Parts, Item: in.Item, ClientID: in.ClientID})})
	}
	s.Accepted = nil
	// An earlier repair that was itself interrupted may have added the marker.
	if (s.OpenTurn != "" || why.always) && !endsWith(h, why.marker) {
		if list := s.unfinished(func(top event.CallID) bool { return !open[top] }); list != "" {
			added = append(added, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: fmt.Sprintf(wentOnText, list)}}})
		}
		added = append(added, why.marker)
	}
	if len(s.Restored) > 0 && why.files {
		added = append(added, restored(s.Restored))
	}
	if len(added) > 0 {
		h.Append(added...)
		bodies = append(bodies, event.HistoryAdded{Messages: added})
	}
	if s.OpenTurn != "" {
		bodies = append(bodies, event.TurnEnded{Status: event.TurnInterrupted, Usage: s.Usage, Reason: why.reason})
	}
	return bodies
}

func endsWith(h *history.History, m llm.Message) bool {
	ms := h.Messages()
	return len(ms) > 0 && ms[len(ms)-1].Role == m.Role && ms[len(ms)-1].Text() == m.Text()
}

func (s *State) output(c *llm.ToolCall, started bool, why repairPolicy) *llm.ToolResult {
	r := &llm.ToolResult{ID: c.ID, Name: c.Name, Namespace: c.Namespace, Freeform: c.Freeform, Search: c.Search, IsError: true}
	ended, ok := s.Ended[event.CallID(c.ID)]
	text := why.notStarted
	switch {
	case ok && ended.Result != nil:
		return ended.Result
	case ok && ended.Outcome == event.OutcomeUnknown: // an earlier repair that was interrupted said so
		text = why.unknown
	case ok:
		text = fmt.Sprintf(lostOutputText, ended.Outcome)
	case started:
		text = why.unknown
	}
	if text == why.unknown {
		if list := s.unfinished(func(top event.CallID) bool { return top == event.CallID(c.ID) }); list != "" {
			text += " It had started these calls, which had not ended:" + list
		}
	}
	r.Content = llm.Parts{&llm.Text{Text: text}}
	return r
}

// Bounds of what the model reads of calls and sessions that it has lost.
const (
	maxUnfinished      = 20
	maxUnfinishedInput = 300 // bytes of each one
)

// wentOnText is about calls of code whose own call has its output already: it went on after that.
const wentOnText = "<turn_aborted>\nCode that was still running had started these calls, which had not ended:%s\n" +
	"Their outcome is unknown, and they were not run again: check before you repeat them.\n</turn_aborted>"

// unfinished lists, for the model, the calls that had started and not ended and are nested in the calls of the model that of selects;
// "": there are none.
func (s *State) unfinished(of func(top event.CallID) bool) string {
	var b strings.Builder
	n := 0
	for _, c := range s.Open {
		if len(c.Parents) == 0 || !of(topOf(c)) {
			continue
		}
		if e, ok := s.Ended[c.Call]; ok && e.Outcome != event.OutcomeUnknown {
			continue
		}
		if n++; n > maxUnfinished {
			continue
		}
		input := clipped(cmp.Or(c.Text, string(c.Arguments)))
		name := c.Tool
		if c.Namespace != "" {
			name = c.Namespace + "." + name
		}
		fmt.Fprintf(&b, "\n- %s %s", name, input)
	}
	if n > maxUnfinished {
		fmt.Fprintf(&b, "\n- and %d more", n-maxUnfinished)
	}
	return b.String()
}

// withoutSessions tells the model which sessions a copy of a conversation lacks, such as kernels with its variables.
func withoutSessions(list []event.SessionOpened) llm.Message {
	var b strings.Builder
	b.WriteString("<" + history.ThreadForked + ">\nThis conversation is a copy of another one. These sessions belong to that one and don't exist " +
		"here, and nothing that they hold in memory does:")
	for i, o := range list {
		if i == maxUnfinished {
			fmt.Fprintf(&b, "\n- and %d more", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "\n- %s", o.Session)
		if o.Title != "" {
			fmt.Fprintf(&b, " (%s)", clipped(o.Title))
		}
	}
	b.WriteString("\n</" + history.ThreadForked + ">")
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: b.String()}}}
}

func clipped(s string) string {
	if len(s) <= maxUnfinishedInput {
		return s
	}
	return strings.ToValidUTF8(s[:maxUnfinishedInput], "") + "…"
}

// topOf returns the call of the model in which a call is nested, or the call itself.
func topOf(c event.CallStarted) event.CallID {
	if len(c.Parents) > 0 {
		return c.Parents[0]
	}
	return c.Call
}
