// Package history is what the model sees of a thread: the messages so far, in order.
//
// It owns: recording, the form sent with a request (pairing of calls and outputs, media the model can't take), truncation
// of tool output, counts and estimates of tokens. It must not know: where messages come from, how they are stored, any provider.
//
// Start with [History]. A History belongs to one goroutine.
package history

import (
	"crypto/rand"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// History is the messages of a thread, oldest first. It only grows, until a compaction replaces it.
type History struct {
	messages     []llm.Message
	count        Count
	full         bool // the model refused it as too long
	contextState *event.Reference
	revision     string
}

// New returns a history of messages, which are not copied and must not change.
func New(messages []llm.Message) *History { return &History{messages: messages, revision: rand.Text()} }

// Revision is the same as long as the history only grows. No other history has it.
func (h *History) Revision() string { return h.revision }

// Append adds messages.
func (h *History) Append(ms ...llm.Message) { h.messages = append(h.messages, ms...) }

// Len returns the number of messages.
func (h *History) Len() int { return len(h.messages) }

// Messages returns the messages. The slice is shared and must not be changed.
func (h *History) Messages() []llm.Message { return slices.Clip(h.messages) }

// Unanswered returns the calls without an output, in the order in which they were made.
func (h *History) Unanswered() []*llm.ToolCall {
	left := answers(h.messages)
	var out []*llm.ToolCall
	for _, c := range calls(h.messages) {
		if !left.take(c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// calls returns the calls of our own tools. A vendor's own calls are between its call and its result.
func calls(ms []llm.Message) []*llm.ToolCall {
	var out []*llm.ToolCall
	for _, m := range ms {
		for _, p := range m.Parts {
			if c, ok := p.(*llm.ToolCall); ok && !c.ProviderExecuted {
				out = append(out, c)
			}
		}
	}
	return out
}

// outputCounts counts outputs by call id. Some models number the calls of each answer from one, so the n-th call of an id has the n-th
// output.
type outputCounts map[string]int

func answers(ms []llm.Message) outputCounts {
	out := outputCounts{}
	for _, m := range ms {
		for _, p := range m.Parts {
			if r, ok := p.(*llm.ToolResult); ok && !r.ProviderExecuted {
				out[r.ID]++
			}
		}
	}
	return out
}

// take removes an output of a call and reports whether there was one.
func (t outputCounts) take(id string) bool {
	if t[id] == 0 {
		return false
	}
	t[id]--
	return true
}
