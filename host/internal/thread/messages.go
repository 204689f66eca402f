package thread

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// MessagesID is the ID of the [Feature] that every thread has: the clients' identities of the messages that it has accepted.
const MessagesID = "messages"

// maxMessages is the number of messages whose identities a thread remembers. A client that connects again repeats only its last ones.
const maxMessages = 100

// Message is a user's message that the thread has accepted from a client.
type Message struct {
	ClientID string       `json:"clientId"`
	Turn     event.TurnID `json:"turn,omitempty"` // the turn that got the message; empty: it was added between two turns
	Item     event.ItemID `json:"item"`
}

// MessageOf finds a message by the client's identity of it in the state of the feature [MessagesID].
func MessageOf(state json.RawMessage, clientID string) (m Message, known bool) {
	if clientID == "" || state == nil {
		return m, false
	}
	all := messagesOf(state)
	i := slices.IndexFunc(all, func(m Message) bool { return m.ClientID == clientID })
	if i < 0 {
		return m, false
	}
	return all[i], true
}

// messagesOf decodes a state. One that can't be decoded counts as empty: then a repeated message may be accepted again.
func messagesOf(state json.RawMessage) (all []Message) {
	if json.Unmarshal(state, &all) != nil {
		return nil
	}
	return all
}

// accepted is the feature [MessagesID]. Its state is a list of [Message], oldest first.
type accepted struct{}

// withMessages adds the feature to the others.
func withMessages(others []Feature) []Feature { return append([]Feature{accepted{}}, others...) }

// ID implements [Feature].
func (accepted) ID() string { return MessagesID }

// Apply implements [Feature].
func (accepted) Apply(state json.RawMessage, e event.Event) json.RawMessage {
	var m Message
	switch b := e.Body.(type) {
	case event.InputAccepted:
		m = Message{b.ClientID, b.Turn, b.Item}
	case event.ItemCompleted:
		m = Message{b.Item.ClientID, e.Turn, b.Item.ID}
	}
	if m.ClientID == "" {
		return state
	}
	all := messagesOf(state)
	if slices.ContainsFunc(all, func(is Message) bool { return is.ClientID == m.ClientID }) {
		return state
	}
	all = append(all, m)
	next, err := json.Marshal(all[max(0, len(all)-maxMessages):])
	if err != nil { // strings always marshal
		panic("thread: marshal messages: " + err.Error())
	}
	return next
}

// messages are the messages with a client's identity that are being accepted. The zero value is ready to use.
type messages struct {
	mu      sync.Mutex
	pending map[string]*pendingMessage
}

type pendingMessage struct {
	done     chan struct{} // closed when result is set
	accepted Accepted
	err      error
}

// begin is called before a message is submitted. If the log has the message, or another caller is submitting it, first is false and a says
// what happened to it. Otherwise the caller submits it and calls done.
func (s *messages) begin(ctx context.Context, id string, b *bus) (a Accepted, first bool, err error) {
	for {
		s.mu.Lock()
		// The log is read while no other caller can end: what has been submitted is either pending or in the log.
		m, known := MessageOf((*b.features.Load())[MessagesID], id)
		p := s.pending[id]
		if !known && p == nil {
			if s.pending == nil {
				s.pending = map[string]*pendingMessage{}
			}
			s.pending[id] = &pendingMessage{done: make(chan struct{})}
			s.mu.Unlock()
			return Accepted{}, true, nil
		}
		s.mu.Unlock()
		if p == nil {
			// What the caller is told survives a restart of the host, unless the store can't write; the first caller was told the same.
			if err := b.flush(ctx); err != nil && ctx.Err() != nil {
				return Accepted{}, false, context.Cause(ctx)
			}
			return Accepted{Turn: m.Turn, Repeated: true}, false, nil
		}
		select {
		case <-p.done:
			if p.err == nil {
				a = p.accepted
				a.Repeated = true
				return a, false, nil
			}
			// It was not accepted, perhaps because its sender has left.
		case <-ctx.Done():
			return Accepted{}, false, context.Cause(ctx)
		}
	}
}

// done ends the submission of a message. If it was accepted, the log has it.
func (s *messages) done(id string, a Accepted, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending[id]
	p.accepted, p.err = a, err
	delete(s.pending, id)
	close(p.done)
}
