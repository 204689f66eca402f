package client

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Apply changes the thread as a notification says. Those of other threads, those without an effect on what is shown, and those that can't
// be read leave it as it is; the server may be newer.
func (t *Thread) Apply(n rpc.Notification) {
	raw, ok := n.Params.(json.RawMessage)
	if !ok {
		return
	}
	var of struct{ ThreadID *string }
	if json.Unmarshal(raw, &of) != nil || of.ThreadID == nil || *of.ThreadID != t.ID {
		return
	}
	if n.Seq > 0 {
		if n.Seq < t.seq {
			return // it was sent again
		}
		t.seq, t.part = n.Seq, n.Part
	}
	if f := reducers(n.Method); f != nil {
		f(t, raw)
	}
}

// on returns a reducer of notifications with parameters P.
func on[P any](f func(t *Thread, p P)) func(*Thread, json.RawMessage) {
	return func(t *Thread, raw json.RawMessage) {
		var p P
		if json.Unmarshal(raw, &p) == nil {
			f(t, p)
		}
	}
}

func reducers(method string) func(*Thread, json.RawMessage) {
	switch method {
	case protocol.NotifyThreadStatusChanged.Name:
		return on(func(t *Thread, p protocol.ThreadStatusChangedNotification) { t.Status = p.Status })
	case protocol.NotifyThreadNameUpdated.Name:
		return on(func(t *Thread, p protocol.ThreadNameUpdatedNotification) {
			if t.Name = ""; p.ThreadName != nil {
				t.Name = *p.ThreadName
			}
		})
	case protocol.NotifyThreadTokenUsageUpdated.Name:
		return on(func(t *Thread, p protocol.ThreadTokenUsageUpdatedNotification) { t.Usage = &p.TokenUsage })
	case protocol.NotifyThreadSettingsUpdated.Name:
		return on((*Thread).settings)
	case protocol.NotifyThreadQueueChanged.Name:
		return on(func(t *Thread, _ protocol.ThreadQueueChangedNotification) { t.QueueStale = true })
	case protocol.NotifyThreadClosed.Name:
		return on(func(t *Thread, _ protocol.ThreadClosedNotification) { t.Closed = true })
	case protocol.NotifyTurnStarted.Name:
		return on(func(t *Thread, p protocol.TurnStartedNotification) { t.begin(p.Turn) })
	case protocol.NotifyTurnCompleted.Name:
		return on(func(t *Thread, p protocol.TurnCompletedNotification) { t.end(p.Turn) })
	case protocol.NotifyTurnDiffUpdated.Name:
		return on(func(t *Thread, p protocol.TurnDiffUpdatedNotification) {
			if u := t.turn(p.TurnID); u != nil {
				u.Diff = p.Diff
			}
		})
	case protocol.NotifyItemStarted.Name:
		return on(func(t *Thread, p protocol.ItemStartedNotification) { t.put(p.TurnID, p.Item.Body, false) })
	case protocol.NotifyItemCompleted.Name:
		return on(func(t *Thread, p protocol.ItemCompletedNotification) { t.put(p.TurnID, p.Item.Body, true) })
	case protocol.NotifyAgentMessageDelta.Name:
		return on(func(t *Thread, p protocol.AgentMessageDeltaNotification) {
			t.grow(p.TurnID, p.ItemID, func(s *stream) { s.add(p.Delta) })
		})
	case protocol.NotifyReasoningSummaryTextDelta.Name:
		return on(func(t *Thread, p protocol.ReasoningSummaryTextDeltaNotification) {
			t.grow(p.TurnID, p.ItemID, func(s *stream) { s.part(int(min(p.SummaryIndex, maxParts))); s.add(p.Delta) })
		})
	case protocol.NotifyReasoningTextDelta.Name:
		return on(func(t *Thread, p protocol.ReasoningTextDeltaNotification) {
			t.grow(p.TurnID, p.ItemID, func(s *stream) { s.part(int(min(p.ContentIndex, maxParts))); s.add(p.Delta) })
		})
	case protocol.NotifyCommandOutputDelta.Name:
		return on(func(t *Thread, p protocol.CommandExecutionOutputDeltaNotification) {
			t.grow(p.TurnID, p.ItemID, func(s *stream) {
				if p.Offset != nil {
					s.addAt(*p.Offset, p.Delta)
				} else {
					s.add(p.Delta)
				}
			})
		})
	case protocol.NotifyError.Name:
		return on(func(t *Thread, p protocol.ErrorNotification) {
			if p.WillRetry { // the end of the turn says it otherwise
				t.Note(Notice{Level: Warning, Text: p.Error.Message + " (trying again)"})
			}
		})
	case protocol.NotifyWarning.Name:
		return on(func(t *Thread, p protocol.WarningNotification) { t.Note(Notice{Level: Warning, Text: p.Message}) })
	case protocol.NotifyGuardianWarning.Name:
		return on(func(t *Thread, p protocol.GuardianWarningNotification) {
			t.Note(Notice{Level: Warning, Text: p.Message})
		})
	case protocol.NotifyServerRequestResolved.Name:
		return on(func(t *Thread, p protocol.ServerRequestResolvedNotification) { t.Settle(p.RequestID) })
	}
	return nil
}

// maxParts bounds the parts of reasoning, whose numbers come from a model's provider.
const maxParts = 1000

func (t *Thread) settings(p protocol.ThreadSettingsUpdatedNotification) {
	s := p.ThreadSettings
	t.Cwd, t.Model, t.Provider, t.Approval, t.Sandbox = s.Cwd, s.Model, s.ModelProvider, s.ApprovalPolicy, s.SandboxPolicy
	if t.Effort = ""; s.Effort != nil {
		t.Effort = *s.Effort
	}
}

func (t *Thread) begin(of protocol.Turn) {
	u := t.turn(of.ID)
	if u == nil {
		u = &Turn{ID: of.ID}
		t.Turns = append(t.Turns, u)
	}
	u.update(of)
}

func (t *Thread) end(of protocol.Turn) {
	u := t.turn(of.ID)
	if u == nil || u.Status == protocol.TurnInProgress {
		t.begin(of)
		u = t.turn(of.ID)
		if n := ending(u); n != nil {
			t.Items = append(t.Items, &Item{Turn: u.ID, Notice: n, Done: true})
		}
	}
}

// put adds or replaces an item.
func (t *Thread) put(turn string, body protocol.ItemBody, done bool) {
	if body == nil {
		return // of a kind that is not known
	}
	k := key(turn, body.Header().ID)
	i := t.items[k]
	if i == nil {
		i = &Item{Turn: turn}
		t.items[k] = i
		t.Items = append(t.Items, i)
	} else if i.Done && !done {
		return // it was sent again
	}
	i.Body, i.Done = body, done
	i.Version++
	if done || len(i.stream.buf) == 0 {
		i.stream.load(body)
	}
}

// grow adds to the text of an item that is not done.
func (t *Thread) grow(turn, id string, add func(*stream)) {
	i := t.items[key(turn, id)]
	if i == nil || i.Done {
		return
	}
	add(&i.stream)
	i.Version++
}
