package client

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Thread is what a client knows of a thread. It changes only by its methods, which do nothing else: the same calls make the same thread.
type Thread struct {
	ID, Name, Cwd           string
	Model, Provider, Effort string
	Approval                protocol.AskForApproval
	Sandbox                 protocol.SandboxPolicy
	Status                  protocol.ThreadStatus
	Usage                   *protocol.ThreadTokenUsage
	Turns                   []*Turn // in order, those that were read
	Items                   []*Item // of these turns, in order, with notices between them
	Questions               []Question
	Queue                   []protocol.QueuedSubmission
	// QueueStale says that the queue has changed, which the protocol announces without its content.
	QueueStale bool
	Closed     bool // no process runs it any more
	// Older continues the turns before the first one; nil: that is the first of the thread.
	Older *string

	seq   uint64 // of the last notification
	part  int
	items map[string]*Item // by turn and ID
}

// Turn is one round of work.
type Turn struct {
	ID         string
	Status     protocol.TurnStatus
	Error      *protocol.TurnError
	Diff       string // of all its changes, unified
	StartedAt  int64  // Unix time; 0: unknown
	DurationMs int64
}

// Item is a visible part of a turn, or a notice.
type Item struct {
	Turn string
	// Body is nil of a notice. What streams, such as the text of a message, is in Text until the item is done.
	Body   protocol.ItemBody
	Notice *Notice
	Done   bool
	// Version changes with the item.
	Version int

	stream stream
}

// Notice is something that the server or the client has to say beside the conversation.
type Notice struct {
	Level Level
	Text  string
	Next  string // what to do about it; empty: nothing
	Diff  bool   // Text is a unified diff
}

// Level is how serious a notice is.
type Level int

// Levels.
const (
	Info Level = iota
	Warning
	Error
)

// NewThread returns the thread that was started, resumed or forked.
func NewThread(r protocol.ThreadStartResponse) *Thread {
	t := &Thread{
		ID: r.Thread.ID, Cwd: r.Cwd, Model: r.Model, Provider: r.ModelProvider, Approval: r.ApprovalPolicy, Sandbox: r.Sandbox, Status: r.Thread.Status,
		items: map[string]*Item{},
	}
	if r.Thread.Name != nil {
		t.Name = *r.Thread.Name
	}
	if r.ReasoningEffort != nil {
		t.Effort = *r.ReasoningEffort
	}
	return t
}

// ResumeThread returns the thread of a response to thread/resume that asked for its latest turns.
func ResumeThread(r protocol.ThreadResumeResponse) *Thread {
	t := NewThread(r.ThreadStartResponse)
	if r.Seq != nil {
		t.seq = *r.Seq
	}
	if r.InitialTurnsPage != nil {
		t.Prepend(r.InitialTurnsPage.Data, r.InitialTurnsPage.NextCursor)
	}
	return t
}

// Prepend adds turns that precede those which are known, latest first as in a page of turns, and what continues before them. It returns
// the number of items that were added.
func (t *Thread) Prepend(page []protocol.Turn, older *string) int {
	t.Older = older
	var turns []*Turn
	var items []*Item
	for _, of := range slices.Backward(page) {
		if t.turn(of.ID) != nil {
			continue
		}
		u := &Turn{ID: of.ID}
		u.update(of)
		turns = append(turns, u)
		for _, i := range of.Items {
			if i.Body == nil {
				continue
			}
			it := &Item{Turn: of.ID, Body: i.Body, Done: of.Status != protocol.TurnInProgress || i.Body.Header().CompletedAtMs != nil}
			it.stream.load(i.Body)
			items = append(items, it)
			t.items[key(of.ID, i.Body.Header().ID)] = it
		}
		if n := ending(u); n != nil {
			items = append(items, &Item{Turn: u.ID, Notice: n, Done: true})
		}
	}
	t.Turns = append(turns, t.Turns...)
	t.Items = append(items, t.Items...)
	return len(items)
}

// Resume returns the parameters with which thread/resume continues after what is known.
func (t *Thread) Resume() protocol.ThreadResumeParams {
	seq := t.seq
	return protocol.ThreadResumeParams{ThreadID: t.ID, ExcludeTurns: true, AfterSeq: &seq, AfterPart: t.part}
}

// Running returns the turn that runs, or nil.
func (t *Thread) Running() *Turn {
	if n := len(t.Turns); n > 0 && t.Turns[n-1].Status == protocol.TurnInProgress {
		return t.Turns[n-1]
	}
	return nil
}

// Item returns an item, or nil.
func (t *Thread) Item(turn, id string) *Item { return t.items[key(turn, id)] }

// Ask adds a question.
func (t *Thread) Ask(q Question) {
	if !slices.ContainsFunc(t.Questions, func(o Question) bool { return o.ID == q.ID }) {
		t.Questions = append(t.Questions, q)
	}
}

// Settle removes a question that was answered or withdrawn, and reports whether it was open.
func (t *Thread) Settle(id string) bool {
	n := len(t.Questions)
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { return q.ID == id })
	return len(t.Questions) < n
}

// Disconnected forgets the questions, which are asked again when the thread is resumed.
func (t *Thread) Disconnected() { t.Questions = nil }

// Note adds a notice at the end.
func (t *Thread) Note(n Notice) {
	turn := ""
	if u := t.Running(); u != nil {
		turn = u.ID
	}
	t.Items = append(t.Items, &Item{Turn: turn, Notice: &n, Done: true})
}

// Text is what has streamed so far: the text of a message, the reasoning, or the output of a command.
func (i *Item) Text() string { return i.stream.text() }

// Omitted is the number of bytes that are missing in the middle of Text.
func (i *Item) Omitted() int { return i.stream.omitted }

func key(turn, item string) string { return turn + "/" + item }

func (t *Thread) turn(id string) *Turn {
	for _, u := range slices.Backward(t.Turns) {
		if u.ID == id {
			return u
		}
	}
	return nil
}

func (u *Turn) update(of protocol.Turn) {
	u.Status, u.Error = of.Status, of.Error
	if of.StartedAt != nil {
		u.StartedAt = *of.StartedAt
	}
	if of.DurationMs != nil {
		u.DurationMs = *of.DurationMs
	}
}

// ending returns what is said about the end of a turn, or nil.
func ending(u *Turn) *Notice {
	switch {
	case u.Status == protocol.TurnInterrupted:
		return &Notice{Level: Info, Text: "interrupted"}
	case u.Status != protocol.TurnFailed:
		return nil
	case u.Error == nil:
		return &Notice{Level: Error, Text: "the turn failed"}
	}
	n := &Notice{Level: Error, Text: u.Error.Message}
	if u.Error.Next != nil {
		n.Next = *u.Error.Next
	}
	return n
}

// Bounds of what is kept of a stream: of a command that writes without end, its beginning and its end.
const (
	keepHead = 64 << 10
	keepTail = 64 << 10
	keepMost = 4 * (keepHead + keepTail)
)

// stream is text that grows.
type stream struct {
	buf      []byte
	received uint64 // bytes, for deltas that say where they belong
	omitted  int
	bounded  bool
	parts    []int // where the parts of reasoning begin
}

func (s *stream) text() string { return string(s.buf) }

func (s *stream) add(delta string) {
	s.buf = append(s.buf, delta...)
	s.received += uint64(len(delta))
	if s.bounded && len(s.buf) > keepMost {
		cut := len(s.buf) - keepHead - keepTail
		s.buf = append(s.buf[:keepHead:keepHead], s.buf[keepHead+cut:]...)
		s.omitted += cut
	}
}

// addAt adds a delta whose place is known: what overlaps with what was received is skipped.
func (s *stream) addAt(offset uint64, delta string) {
	if offset > s.received {
		s.omitted += int(offset - s.received)
		s.received = offset
	}
	if skip := s.received - offset; skip < uint64(len(delta)) {
		s.add(delta[skip:])
	}
}

// part begins part n of reasoning, which a blank line separates from the one before.
func (s *stream) part(n int) {
	for len(s.parts) <= n {
		if len(s.buf) > 0 {
			s.buf = append(s.buf, "\n\n"...)
		}
		s.parts = append(s.parts, len(s.buf))
	}
}

// load takes the text of an item.
func (s *stream) load(body protocol.ItemBody) {
	switch b := body.(type) {
	case protocol.AgentMessageItem:
		s.set(b.Text)
	case protocol.PlanItem:
		s.set(b.Text)
	case protocol.ReasoningItem:
		parts := b.Summary
		if len(parts) == 0 {
			parts = b.Content
		}
		s.set(strings.Join(parts, "\n\n"))
		s.parts = make([]int, len(parts))
	case protocol.CommandExecutionItem:
		s.bounded = true
		if b.AggregatedOutput != nil && (*b.AggregatedOutput != "" || s.received == 0) {
			s.set(*b.AggregatedOutput)
		}
	}
}

func (s *stream) set(text string) {
	*s = stream{bounded: s.bounded}
	s.add(text)
}

// Context returns the share of the model's context window that is left, in percent; ok is false if it is not known.
func (t *Thread) Context() (percent int, ok bool) {
	if t.Usage == nil || t.Usage.ModelContextWindow == nil || *t.Usage.ModelContextWindow <= 0 {
		return 0, false
	}
	left := *t.Usage.ModelContextWindow - t.Usage.Last.TotalTokens
	return int(min(max(left, 0)*100 / *t.Usage.ModelContextWindow, 100)), true
}

// SandboxName returns the name of the thread's sandbox, as users write it.
func (t *Thread) SandboxName() string {
	switch t.Sandbox.Body.(type) {
	case protocol.ReadOnlyPolicy:
		return string(protocol.SandboxReadOnly)
	case protocol.WorkspaceWritePolicy:
		return string(protocol.SandboxWorkspaceWrite)
	case protocol.FullAccessPolicy:
		return string(protocol.SandboxFullAccess)
	case protocol.ExternalSandboxPolicy:
		return "external"
	}
	return ""
}

// Title returns what to call the thread.
func (t *Thread) Title() string { return cmp.Or(t.Name, t.Cwd) }
