package history

import (
	"crypto/rand"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Count is what is known about the number of tokens in a history.
type Count struct {
	Tokens   int64 // of the last request and its answer, as reported by the provider
	Messages int   // number of messages, from the first one on, that Tokens includes
	Prefix   int64 // tokens of the first request since the beginning or the last compaction
	Settled  int   // number of messages at the last compaction, or the last attempt of one
}

// Restore returns the history of a stored thread.
func Restore(messages []llm.Message, c Count) *History {
	h := New(messages)
	h.count = c
	return h
}

// Counted sets the tokens reported by a provider: total for all messages so far and everything before them; input for the request
// alone.
func (h *History) Counted(total, input int64) {
	h.count = h.count.Counted(len(h.messages), total, input)
	h.full = false
}

// Counted returns the count after a provider has reported the tokens of so many messages.
func (c Count) Counted(messages int, total, input int64) Count {
	c.Tokens, c.Messages = total, messages
	if c.Prefix == 0 {
		c.Prefix = input
	}
	return c
}

// Compacted returns the count of messages that have just replaced all others.
func Compacted(messages int, tokens int64) Count {
	return Count{Tokens: tokens, Messages: messages, Settled: messages}
}

// Active returns the known or estimated tokens of the next request: what the provider reported last, thoughts that it does not
// report, and an estimate of what came after. It is 0 before the first answer. People are shown this number, and limits are
// checked against it.
func (h *History) Active() int64 {
	if h.count.Tokens == 0 {
		return 0
	}
	return h.count.Tokens + sealedBefore(h.messages) + Estimate(h.messages[h.count.Messages:])
}

// Overflowed says that the model refused the history as too long.
func (h *History) Overflowed() { h.full = true }

// Replace replaces everything with messages of about so many tokens.
func (h *History) Replace(messages []llm.Message, tokens int64) {
	h.messages = messages
	h.count = Compacted(len(messages), tokens)
	h.full, h.contextState, h.revision = false, nil, rand.Text()
}

// Settle says that the current messages can't be compacted.
func (h *History) Settle() { h.count.Settled = len(h.messages) }

// Grown reports whether a model has answered since the last compaction, or the last attempt of one.
func (h *History) Grown() bool {
	for _, m := range h.messages[h.count.Settled:] {
		if m.Role == llm.RoleAssistant {
			return true
		}
	}
	return false
}
