// Package history is what the model sees of a thread: the messages so far, in order.
//
// It owns: recording, the form sent with a request (pairing of calls and outputs, media the model can't take), truncation
// of tool output, counts and estimates of tokens. It must not know: where messages come from, how they are stored, any provider.
//
// Start with [History]. A History belongs to one goroutine.
package history

import (
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// History is the messages of a thread, oldest first. It grows, until a shorter one takes its place.
type History struct {
	messages     []llm.Message
	count        Count
	full         bool // the model refused it for its length
	contextState *event.Reference
}

// New starts from messages, which are not copied and must not change any more.
func New(messages []llm.Message) *History { return &History{messages: messages} }

// Append records messages.
func (h *History) Append(ms ...llm.Message) { h.messages = append(h.messages, ms...) }

// Len is the number of messages.
func (h *History) Len() int { return len(h.messages) }

// Messages returns what was recorded. The slice is shared and must not be changed.
func (h *History) Messages() []llm.Message { return slices.Clip(h.messages) }

// Unanswered lists the calls that have no output yet, in the order asked.
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

// calls and answers are those of our own tools: what a vendor ran is between its call and its result.
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

// tally counts outputs by the id of their call. Some models number the calls of each answer anew, so an id alone does not
// say that a call has its output: the first call of an id has the first output, and so on.
type tally map[string]int

func answers(ms []llm.Message) tally {
	out := tally{}
	for _, m := range ms {
		for _, p := range m.Parts {
			if r, ok := p.(*llm.ToolResult); ok && !r.ProviderExecuted {
				out[r.ID]++
			}
		}
	}
	return out
}

// take uses up an output of a call and reports whether there was one.
func (t tally) take(id string) bool {
	if t[id] == 0 {
		return false
	}
	t[id]--
	return true
}
