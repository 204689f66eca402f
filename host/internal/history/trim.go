package history

import (
	"slices"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// DropOldest returns messages without the first one, and without what can't stand alone then: the outputs of its calls, or
// the calls of its outputs.
func DropOldest(ms []llm.Message) []llm.Message {
	if len(ms) == 0 {
		return ms
	}
	// Some models number the calls of each answer anew: the first call of an id has the first output.
	gone := map[string]int{}
	for _, p := range ms[0].Parts {
		if id, ok := pairOf(p); ok {
			gone[id]++
		}
	}
	out := make([]llm.Message, 0, len(ms)-1)
	for _, m := range ms[1:] {
		if len(gone) > 0 {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool {
				id, ok := pairOf(p)
				if !ok || gone[id] == 0 {
					return false
				}
				if gone[id]--; gone[id] == 0 {
					delete(gone, id)
				}
				return true
			})
		}
		if len(m.Parts) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// pairOf is the id of a call, or of the call of an output.
func pairOf(p llm.Part) (id string, ok bool) {
	switch p := p.(type) {
	case *llm.ToolCall:
		return p.ID, true
	case *llm.ToolResult:
		return p.ID, true
	}
	return "", false
}
