package history

import "github.com/gantry-agent/gantry/sdk/llm"

// Count is what is known of a history's tokens. It is kept with the thread.
type Count struct {
	Tokens   int64 // of the last request and its answer, as the provider counted them
	Messages int   // that these are, from the first on
	Prefix   int64 // of the first request since the thread began or was compacted
	Settled  int   // messages up to the last compaction, or to the last try of one
}

// Restore starts from the messages of a stored thread.
func Restore(messages []llm.Message, c Count) *History { return &History{messages: messages, count: c} }

// Counted takes what a provider counted: total for all messages so far, with what stands before them; input for those of
// the request.
func (h *History) Counted(total, input int64) {
	h.count = h.count.Counted(len(h.messages), total, input)
	h.full = false
}

// Counted is the count after a provider has counted so many messages.
func (c Count) Counted(messages int, total, input int64) Count {
	c.Tokens, c.Messages = total, messages
	if c.Prefix == 0 {
		c.Prefix = input
	}
	return c
}

// Compacted is the count of messages that have just taken the place of all others.
func Compacted(messages int, tokens int64) Count {
	return Count{Tokens: tokens, Messages: messages, Settled: messages}
}

// Active is how many tokens the next request will hold, as far as it is known: what the provider counted last, thoughts
// that it leaves out, and an estimate of what came after. Before the first answer it is 0. It is what people are shown and
// what decisions rest on.
func (h *History) Active() int64 {
	if h.count.Tokens == 0 {
		return 0
	}
	return h.count.Tokens + sealedBefore(h.messages) + Estimate(h.messages[h.count.Messages:])
}

// Overflowed says that the model refused the history for its length.
func (h *History) Overflowed() { h.full = true }

// Replace puts messages of about so many tokens in the place of all that was recorded.
func (h *History) Replace(messages []llm.Message, tokens int64) {
	h.messages = messages
	h.count = Compacted(len(messages), tokens)
	h.full, h.contextState = false, nil
}

// Settle says that what there is can't be made shorter.
func (h *History) Settle() { h.count.Settled = len(h.messages) }

// Grown tells that a model has said something since the history was made shorter, or could not be.
func (h *History) Grown() bool {
	for _, m := range h.messages[h.count.Settled:] {
		if m.Role == llm.RoleAssistant {
			return true
		}
	}
	return false
}
