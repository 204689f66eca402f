package guardian

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Session is a reviewer that remembers earlier questions: a [child.Child].
type Session interface {
	Ask(ctx context.Context, q child.Question) (answer string, err error)
	ID() event.ThreadID
	Close()
}

// Limits of a session. Beyond them, the next review opens another one, before the reviewer's own history would be compacted.
const (
	maxReviews  = 25
	maxQuestion = 60_000 // tokens of all questions
)

// held is a session that is reused after a review.
type held struct {
	Session
	key     string
	busy    bool
	reviews int
	tokens  int64
	shown   int      // entries of the conversation that the reviewer has read
	as      [32]byte // a hash of these entries
}

// seen returns a hash of the beginning of a conversation.
func seen(entries []entry) [32]byte {
	h := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(h, "%s\x00%s\x00", e.who, e.text)
	}
	return [32]byte(h.Sum(nil))
}

// delta returns the number of entries of a conversation that a session has read; 0 if it has read another conversation.
func (h *held) delta(entries []entry) int {
	if h.shown == 0 || h.shown > len(entries) || seen(entries[:h.shown]) != h.as {
		return 0
	}
	return h.shown
}

// take returns the session of a thread, or opens one. A session that is busy, or that was opened for another folder or model, is
// not used; while it is busy, each review opens a session of its own.
func (g *Guardian) take(ctx context.Context, parent event.ThreadID, model string) (*held, error) {
	key := ""
	if g.cfg.Key != nil {
		key = g.cfg.Key(parent, model)
	}
	g.mu.Lock()
	was := g.mu.sessions[parent]
	if was != nil && !was.busy && was.key == key && was.reviews < maxReviews && was.tokens < maxQuestion {
		was.busy = true
		g.mu.Unlock()
		return was, nil
	}
	h := &held{key: key, busy: true}
	if was == nil || !was.busy {
		g.mu.sessions[parent] = h
	} else {
		was = nil
	}
	g.mu.Unlock()
	if was != nil {
		was.Close()
	}
	s, err := g.cfg.Open(ctx, parent, model)
	if err != nil {
		g.mu.Lock()
		if g.mu.sessions[parent] == h {
			delete(g.mu.sessions, parent)
		}
		g.mu.Unlock()
		return nil, err
	}
	h.Session = s
	return h, nil
}

// give returns a session. It is kept for the next review if this one succeeded and no other session is kept.
func (g *Guardian) give(parent event.ThreadID, h *held, well bool) {
	g.mu.Lock()
	kept := g.mu.sessions[parent] == h
	if kept && !well {
		delete(g.mu.sessions, parent)
	}
	h.busy = false
	g.mu.Unlock()
	if !kept || !well {
		h.Close()
	}
}

// End ends the session of a thread that has ended.
func (g *Guardian) End(parent event.ThreadID) {
	g.mu.Lock()
	h := g.mu.sessions[parent]
	delete(g.mu.sessions, parent)
	busy := h != nil && h.busy
	g.mu.Unlock()
	if h != nil && !busy { // otherwise the review that uses it closes it
		h.Close()
	}
}

// note counts a question that was answered.
func (h *held) note(question string, said []llm.Message) {
	entries := entriesOf(said)
	h.reviews++
	h.tokens += history.Tokens(int64(len(question)))
	h.shown, h.as = len(entries), seen(entries)
}
