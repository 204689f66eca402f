package transcript_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// host makes random events in the order in which a host publishes them.
type host struct {
	*rapid.T
	*stream
	n        int
	items    []event.Item // open
	said     map[event.ItemID]string
	sessions map[string]string // open sessions and their output
	when     map[string]uint64 // numbers of the events that started items and ended sessions
	asked    []string
	reverted bool     // no turn has started since the last revert
	turns    []uint64 // first events of turns that were not reverted
	fixed    int      // the first of them are not reverted: only the next one tells when one of them has ended
}

func (h *host) id(kind string) string { h.n++; return fmt.Sprintf("%s%d", kind, h.n) }

func (h *host) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.T, label) }

// step publishes something.
func (h *host) step() {
	if h.turn == "" {
		h.idle()
		return
	}
	switch h.pick("step", 16) {
	case 0, 1:
		h.say()
	case 2, 3, 4:
		h.call()
	case 5, 6, 7:
		h.continueItem()
	case 8, 9, 10:
		h.complete()
	case 11:
		h.add(event.ItemCompleted{Item: event.Item{ID: event.ItemID(h.id("u")), Type: event.ItemUserMessage, Status: h.status(event.StatusCompleted, event.StatusDeclined), Text: "hello"}})
	case 12:
		h.question()
	case 13:
		h.sessionStep()
	case 14:
		h.add(event.UsageReported{Total: event.Tokens{Total: int64(h.n)}}, event.StreamRetried{Attempt: 1, Max: 5, Cause: "broken"}, event.Notice{Level: "warning", Text: "careful"})
	case 15:
		h.finish()
	}
}

func (h *host) status(of ...event.ItemStatus) event.ItemStatus { return of[h.pick("status", len(of))] }

// idle is for the time between turns.
func (h *host) idle() {
	switch h.pick("idle", 6) {
	case 0:
		if len(h.turns) > h.fixed {
			n := h.fixed + h.pick("revert", len(h.turns)-h.fixed)
			h.add(event.ThreadReverted{From: h.turns[n], Through: h.turns[n] - 1})
			h.turns, h.reverted = h.turns[:n], true
		}
	case 1:
		h.sessionStep()
	case 2:
		if len(h.turns) > 0 && !h.reverted { // input that was accepted when its turn ended, and added by a repair
			h.add(event.ItemCompleted{Item: event.Item{ID: event.ItemID(h.id("u")), Type: event.ItemUserMessage, Status: event.StatusCompleted, Text: "late"}})
		}
	default:
		h.begin(h.id("t"))
		h.reverted = false
		h.turns = append(h.turns, h.seq)
	}
}

func (h *host) say() {
	it := event.Item{ID: event.ItemID(h.id("m")), Type: event.ItemAgentMessage, Status: event.StatusInProgress}
	if h.pick("thought", 3) == 0 {
		it.Type, it.Raw = event.ItemReasoning, h.pick("raw", 2) == 0
	}
	h.open(it)
}

func (h *host) open(it event.Item) {
	h.items = append(h.items, it)
	h.add(event.ItemStarted{Item: it})
	h.when[string(it.ID)] = h.seq
}

func (h *host) call() {
	id := h.id("c")
	it := event.Item{ID: event.ItemID("i" + id), Call: event.CallID(id), Status: event.StatusInProgress, Tool: "a.b"}
	it.Type = []event.ItemType{event.ItemCommand, event.ItemCommand, event.ItemFileChange, event.ItemMCPCall, event.ItemTool, event.ItemCompaction}[h.pick("type", 6)]
	if it.Type == event.ItemCommand {
		it.Command = "ls"
		if h.pick("input", 4) == 0 && len(h.sessions) > 0 {
			it.Session = h.session()
		}
	}
	if h.pick("hosted", 8) == 0 { // complete from the start
		it.Status = event.StatusCompleted
		h.add(event.ItemCompleted{Item: it})
		return
	}
	h.open(it)
	h.add(event.CallStarted{Call: it.Call, Item: it.ID})
}

func (h *host) session() string {
	ids := make([]string, 0, len(h.sessions))
	for id := range h.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[h.pick("session", len(ids))]
}

func (h *host) continueItem() {
	if len(h.items) == 0 {
		return
	}
	it := h.items[h.pick("item", len(h.items))]
	d := event.ItemDelta{Item: it.ID, Delta: event.DeltaOutput, Offset: int64(len(h.said[it.ID])), Text: rapid.SampledFrom([]string{"a", "öl", "\n", "long text "}).Draw(h.T, "text")}
	switch it.Type {
	case event.ItemAgentMessage:
		d.Delta = event.DeltaText
	case event.ItemReasoning:
		d.Delta, d.Raw = event.DeltaReasoning, it.Raw
	}
	h.said[it.ID] += d.Text
	h.add(d)
}

func (h *host) complete() {
	if len(h.items) == 0 {
		return
	}
	n := h.pick("item", len(h.items))
	it := h.items[n]
	h.items = slices.Delete(h.items, n, n+1)
	h.completeItem(it, h.status(event.StatusCompleted, event.StatusCompleted, event.StatusFailed, event.StatusAborted, event.StatusDeclined))
}

// completeItem ends an item as the host does: one of a command may leave a session.
func (h *host) completeItem(it event.Item, status event.ItemStatus) {
	it.Status = status
	switch it.Type {
	case event.ItemAgentMessage, event.ItemReasoning:
		it.Text = h.said[it.ID]
		if status != event.StatusAborted {
			it.Status = h.status(event.StatusCompleted, event.StatusCompleted, event.StatusSuperseded)
		}
	default:
		it.Output = h.said[it.ID]
	}
	if it.Type == event.ItemCommand && it.Session == "" && h.pick("leaves", 2) == 0 {
		// The ID of a session may be that of one that had ended before the call.
		it.Session = fmt.Sprint("s", h.pick("session", 3))
		if _, open := h.sessions[it.Session]; open || h.when[it.Session] > h.when[string(it.ID)] {
			it.Session = h.id("s")
		}
		opened := event.SessionOpened{Session: it.Session, Call: it.Call}
		switch h.pick("order", 3) {
		case 0:
			h.add(opened, event.ItemCompleted{Item: it})
		case 1:
			h.add(event.ItemCompleted{Item: it}, opened)
		default: // it ends before its call does
			h.add(opened, event.SessionExited{Session: it.Session, How: "exited"}, event.ItemCompleted{Item: it})
			h.when[it.Session] = h.seq
			return
		}
		h.sessions[it.Session] = ""
		return
	}
	h.add(event.ItemCompleted{Item: it})
}

func (h *host) sessionStep() {
	if len(h.sessions) == 0 {
		return
	}
	id := h.session()
	if h.pick("exit", 2) == 0 {
		h.add(event.SessionOutput{Session: id, Offset: int64(len(h.sessions[id])), Text: "more\n"})
		h.sessions[id] += "more\n"
		return
	}
	h.add(event.SessionExited{Session: id, How: []string{"exited", "lost", "denied"}[h.pick("how", 3)], ExitCode: int32(h.pick("code", 2)), Output: h.sessions[id]})
	delete(h.sessions, id)
	h.when[id] = h.seq
}

func (h *host) question() {
	if len(h.asked) > 0 && h.pick("resolve", 2) == 0 {
		h.add(event.QuestionResolved{ID: h.asked[0]})
		h.asked = h.asked[1:]
		return
	}
	id := h.id("q")
	h.asked = append(h.asked, id)
	h.add(event.QuestionAsked{ID: id, About: []event.QuestionKind{event.QuestionApproval, event.QuestionChoice, event.QuestionForm}[h.pick("about", 3)]})
}

// finish ends the turn: in order, with a crash and the repair that follows it, or without closing what is open.
func (h *host) finish() {
	status := []event.TurnStatus{event.TurnCompleted, event.TurnFailed, event.TurnInterrupted}[h.pick("end", 3)]
	switch h.pick("how it ends", 4) {
	case 0:
		for _, it := range h.items {
			h.completeItem(it, event.StatusAborted)
		}
	case 1:
		for _, id := range sortedKeys(h.sessions) {
			h.add(event.SessionExited{Session: id, How: "lost"})
			delete(h.sessions, id)
			h.when[id] = h.seq
		}
		for _, id := range h.asked {
			h.add(event.QuestionResolved{ID: id, By: "cancelled"})
		}
		for _, it := range h.items {
			it.Status = event.StatusAborted
			h.add(event.ItemCompleted{Item: it})
		}
		status = event.TurnInterrupted
	case 2: // the log lacks the end
		h.items, h.asked, h.turn = nil, nil, ""
		h.begin(h.id("t"))
		h.turns = append(h.turns, h.seq)
		h.fixed = len(h.turns)
		return
	}
	h.items, h.asked = nil, nil
	h.end(status)
}

func sortedKeys(m map[string]string) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func random(t *rapid.T, thread event.ThreadID) *host {
	h := &host{T: t, stream: newStream(), said: map[event.ItemID]string{}, sessions: map[string]string{}, when: map[string]uint64{}}
	h.thread = thread
	for range rapid.IntRange(0, 120).Draw(t, "steps") {
		h.step()
	}
	return h
}

// What a client has after all notifications is what another one reads from the log. So it is for a client that resumes the thread at any
// point. Every item ends once, and before its turn; the client checks that.
func TestLiveEqualsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := random(t, "th")
		cut := rapid.IntRange(0, len(h.events)).Draw(t, "cut")
		var f transcript.Fold
		always, late := newClient(t), newClient(t)
		for i, e := range h.events {
			if i == cut {
				late.join(turnsOf(t, h.events[:i]), &f)
			}
			changes := f.Apply(e)
			if _, ok := e.Body.(event.TurnEnded); ok {
				for _, it := range f.Open() {
					if c, ok := it.Body.(protocol.CommandExecutionItem); !ok || c.ProcessID == nil {
						t.Fatalf("%+v is open after its turn", it.Body)
					}
				}
			}
			for _, c := range []*client{always, late} {
				if i < cut && c == late {
					continue
				}
				c.apply(changes...)
				if _, ok := e.Body.(event.ThreadReverted); ok {
					c.reverted(turnsOf(t, h.events[:i+1]))
				}
			}
		}
		if cut == len(h.events) {
			late.join(turnsOf(t, h.events), &f)
		}
		stored := turnsOf(t, h.events)
		transcript.WithOpen(stored, f.Open())
		want := pretty(stored)
		if got := withOpen(always, &f); got != want {
			t.Fatalf("live and stored: %s", differ(got, want))
		}
		if got := withOpen(late, &f); got != want {
			t.Fatalf("resumed after %d events, and stored: %s", cut, differ(got, want))
		}
		if compact(f.Status()) != compact(protocol.ThreadStatus{Body: always.status}) {
			t.Fatalf("status %s, and the client knows %s", compact(f.Status()), compact(protocol.ThreadStatus{Body: always.status}))
		}
	})
}

// withOpen returns a client's turns with the open items as they are now; the client knows only how they began, and their deltas.
func withOpen(c *client, f *transcript.Fold) string {
	for _, t := range c.turns {
		turns := []protocol.Turn{*t}
		transcript.WithOpen(turns, f.Open())
	}
	return c.shown()
}

func turnsOf(t fataler, events []event.Event) []protocol.Turn {
	turns, err := transcript.Turns(durable(events), protocol.ItemsFull)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return turns
}
