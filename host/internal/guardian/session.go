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

// Session is a reviewer that remembers what it was asked: a [child.Child].
type Session interface {
	Ask(ctx context.Context, q child.Question) (answer string, err error)
	ID() event.ThreadID
	Close()
}

// Bounds of a session: beyond them the next review begins another one, before the reviewer's own history has to be shortened.
const (
	maxReviews  = 25
	maxQuestion = 60_000 // tokens of questions, all together
)

// held is a session that goes on after a review.
type held struct {
	Session
	key     string
	busy    bool
	reviews int
	tokens  int64
	shown   int      // entries of the conversation that it has read
	as      [32]byte // what these were
}

// seen identifies the beginning of a conversation.
func seen(entries []entry) [32]byte {
	h := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(h, "%s\x00%s\x00", e.who, e.text)
	}
	return [32]byte(h.Sum(nil))
}

// delta is how many entries of a conversation a session has read; 0 where it has read another one.
func (h *held) delta(entries []entry) int {
	if h.shown == 0 || h.shown > len(entries) || seen(entries[:h.shown]) != h.as {
		return 0
	}
	return h.shown
}

// take finds the session of a thread, or begins one. One that is busy, or that was begun for another folder or model, is not used;
// while it is busy, reviews have sessions of their own.
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

// give takes a session back: for the next review, where this one went well and nobody else's is kept.
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

// End ends what is kept for a thread that is over.
func (g *Guardian) End(parent event.ThreadID) {
	g.mu.Lock()
	h := g.mu.sessions[parent]
	delete(g.mu.sessions, parent)
	busy := h != nil && h.busy
	g.mu.Unlock()
	if h != nil && !busy { // who uses it closes it
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
