package transcript_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// client keeps what a client of the app server knows of a thread, by the notifications alone, and checks that they are in order.
type client struct {
	t      fataler
	turns  []*protocol.Turn
	items  map[string]string // items that started: "open" or "completed"
	text   map[string]string // deltas of open items
	status protocol.ThreadStatusBody
	usage  *protocol.ThreadTokenUsage
	log    []string // notifications in a short form
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newClient(t fataler) *client {
	return &client{t: t, items: map[string]string{}, text: map[string]string{}, status: protocol.IdleStatus{}}
}

// join is what a client gets that resumes a thread while it runs.
func (c *client) join(turns []protocol.Turn, f *transcript.Fold) {
	transcript.WithOpen(turns, f.Open())
	for _, turn := range turns {
		c.turns = append(c.turns, &turn)
		for _, it := range turn.Items {
			id := it.Body.Header().ID
			c.items[id] = "completed"
			if it.Body.Header().CompletedAtMs == nil {
				c.items[id] = "open"
				c.text[id] = textOf(it)
			}
		}
	}
	c.status = f.Status().Body
}

func textOf(it protocol.ThreadItem) string {
	switch b := it.Body.(type) {
	case protocol.AgentMessageItem:
		return b.Text
	case protocol.ReasoningItem:
		return fmt.Sprint(append(b.Summary, b.Content...))
	}
	return ""
}

func (c *client) turn(id string) *protocol.Turn {
	for _, t := range c.turns {
		if t.ID == id {
			return t
		}
	}
	c.t.Helper()
	c.t.Fatalf("turn %q was not announced", id)
	return nil
}

func (c *client) apply(changes ...transcript.Change) {
	c.t.Helper()
	for _, ch := range changes {
		c.log = append(c.log, brief(ch))
		switch p := ch.Params.(type) {
		case protocol.TurnStartedNotification:
			if _, active := c.status.(protocol.ActiveStatus); !active {
				c.t.Fatalf("a turn starts while the thread is %T", c.status)
			}
			c.turns = append(c.turns, &p.Turn)
		case protocol.TurnCompletedNotification:
			c.turnCompleted(p.Turn)
		case protocol.ItemStartedNotification:
			c.itemStarted(p)
		case protocol.ItemCompletedNotification:
			c.itemCompleted(p)
		case protocol.AgentMessageDeltaNotification:
			c.delta(p.ItemID, p.Delta)
		case protocol.ReasoningSummaryTextDeltaNotification:
			c.delta(p.ItemID, p.Delta)
		case protocol.ReasoningTextDeltaNotification:
			c.delta(p.ItemID, p.Delta)
		case protocol.CommandExecutionOutputDeltaNotification:
			c.delta(p.ItemID, p.Delta)
		case protocol.ThreadStatusChangedNotification:
			c.status = p.Status.Body
		case protocol.ThreadTokenUsageUpdatedNotification:
			c.usage = &p.TokenUsage
		}
	}
}

func (c *client) itemStarted(p protocol.ItemStartedNotification) {
	id := p.Item.Body.Header().ID
	if c.items[id] != "" {
		c.t.Fatalf("item %s started twice", id)
	}
	c.items[id] = "open"
	t := c.turn(p.TurnID)
	t.Items = append(t.Items, p.Item)
}

func (c *client) itemCompleted(p protocol.ItemCompletedNotification) {
	id := p.Item.Body.Header().ID
	if c.items[id] != "open" {
		c.t.Fatalf("item %s completed while it is %q", id, c.items[id])
	}
	c.items[id] = "completed"
	t := c.turn(p.TurnID)
	t.Items[slices.IndexFunc(t.Items, func(it protocol.ThreadItem) bool { return it.Body.Header().ID == id })] = p.Item
}

func (c *client) delta(id, text string) {
	if c.items[id] != "open" {
		c.t.Fatalf("delta of item %s, which is %q", id, c.items[id])
	}
	c.text[id] += text
}

func (c *client) turnCompleted(done protocol.Turn) {
	switch c.status.(type) {
	case protocol.IdleStatus, protocol.SystemErrorStatus:
	default:
		c.t.Fatalf("a turn completes while the thread is %T", c.status)
	}
	t := c.turn(done.ID)
	if t.Status != protocol.TurnInProgress {
		c.t.Fatalf("turn %s completed twice", t.ID)
	}
	for _, it := range t.Items {
		id := it.Body.Header().ID
		if _, command := it.Body.(protocol.CommandExecutionItem); c.items[id] == "open" && !command { // a process may go on
			c.t.Fatalf("item %s is open at the end of its turn", id)
		}
	}
	items := t.Items
	*t = done
	t.Items = items
}

// reverted drops turns, as a client does that reads them again.
func (c *client) reverted(turns []protocol.Turn) {
	c.turns = slices.DeleteFunc(c.turns, func(t *protocol.Turn) bool {
		return !slices.ContainsFunc(turns, func(o protocol.Turn) bool { return o.ID == t.ID })
	})
}

// shown returns the turns as JSON, with all items that have a text.
func (c *client) shown() string {
	out := []protocol.Turn{}
	for _, t := range c.turns {
		full := *t
		full.Items, full.ItemsView = transcript.Select(t.Items, protocol.ItemsFull), protocol.ItemsFull
		out = append(out, full)
	}
	return pretty(out)
}

// differ returns the lines around the first difference of two texts.
func differ(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	around := func(lines []string) string {
		return strings.Join(lines[max(min(n-12, len(lines)), 0):min(n+6, len(lines))], "\n")
	}
	return "got\n" + around(a) + "\nwant\n" + around(b)
}

func pretty(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// brief returns a notification in one short line.
func brief(c transcript.Change) string {
	switch p := c.Params.(type) {
	case protocol.ItemStartedNotification:
		return c.Method + " " + short(p.Item)
	case protocol.ItemCompletedNotification:
		return c.Method + " " + short(p.Item)
	case protocol.ThreadStatusChangedNotification:
		return c.Method + " " + compact(p.Status)
	case protocol.TurnCompletedNotification:
		return fmt.Sprintf("%s %s %s %d", c.Method, p.Turn.Status, p.Turn.ItemsView, len(p.Turn.Items))
	case protocol.AgentMessageDeltaNotification:
		return c.Method + " " + p.Delta
	case protocol.ReasoningSummaryTextDeltaNotification:
		return c.Method + " " + p.Delta
	case protocol.ReasoningTextDeltaNotification:
		return c.Method + " " + p.Delta
	case protocol.CommandExecutionOutputDeltaNotification:
		return fmt.Sprintf("%s %q", c.Method, p.Delta)
	case protocol.FileChangePatchUpdatedNotification:
		return fmt.Sprintf("%s %s %d lines", c.Method, p.ItemID, strings.Count(p.Changes[0].Diff, "\n+"))
	case protocol.ErrorNotification:
		return fmt.Sprintf("%s %t %s %s", c.Method, p.WillRetry, compact(p.Error.CodexErrorInfo), p.Error.Message)
	case protocol.WarningNotification:
		return c.Method + " " + p.Message
	case protocol.MCPServerStatusUpdatedNotification:
		return c.Method + " " + compact(p)
	}
	return c.Method
}

func compact(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// short returns the type of an item and what changes from its start to its end.
func short(it protocol.ThreadItem) string {
	var head struct{ Type, Status, Source, Phase string }
	_ = json.Unmarshal([]byte(compact(it)), &head)
	out := head.Type
	for _, s := range []string{head.Status, head.Source, head.Phase} {
		if s != "" {
			out += " " + s
		}
	}
	if text := textOf(it); text != "" && text != "[]" {
		out += fmt.Sprintf(" %q", text)
	}
	return out
}

// stream makes events of one thread.
type stream struct {
	thread event.ThreadID
	turn   event.TurnID
	seq    uint64
	at     time.Time
	events []event.Event
}

func newStream() *stream { return &stream{thread: "th", at: time.Unix(1_700_000_000, 0)} }

// add adds events, which are numbered if they are durable, a millisecond apart.
func (s *stream) add(bodies ...event.Body) {
	for _, b := range bodies {
		s.at = s.at.Add(time.Millisecond)
		e := event.Event{Thread: s.thread, Turn: s.turn, Time: s.at, Body: b}
		if e.Durable() {
			s.seq++
			e.Seq = s.seq
		}
		s.events = append(s.events, e)
	}
}

func (s *stream) begin(id string) {
	s.turn = event.TurnID(id)
	s.add(event.TurnStarted{Cwd: "/w", Provider: "p"})
}

func (s *stream) end(status event.TurnStatus) {
	e := event.TurnEnded{Status: status, DurationMS: 7}
	if status == event.TurnFailed {
		e.Error = &event.Problem{Message: "broken", Code: "overloaded", Next: "wait"}
	}
	s.add(e)
	s.turn = ""
}

// durable yields the events that a log has.
func durable(events []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range events {
			if e.Durable() && !yield(e, nil) {
				return
			}
		}
	}
}

// fold returns the notifications of events.
func fold(t testing.TB, events []event.Event) *client {
	c := newClient(t)
	var f transcript.Fold
	for _, e := range events {
		c.apply(f.Apply(e)...)
	}
	return c
}
