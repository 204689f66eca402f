package history

import (
	"slices"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// DropOldest returns messages without the first n and without the outputs of their calls, which do not count. dropped is the
// number of messages that were dropped.
func DropOldest(ms []llm.Message, n int) (rest []llm.Message, dropped int) {
	// Some models number the calls of each answer from one: the n-th call of an id has the n-th output.
	gone := map[string]int{}
	for _, m := range ms {
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
		switch {
		case len(m.Parts) == 0:
		case dropped < n:
			dropped++
			for _, p := range m.Parts {
				if id, ok := pairOf(p); ok {
					gone[id]++
				}
			}
		default:
			rest = append(rest, m)
		}
	}
	return rest, dropped
}

// pairOf returns the id that a call and its output share.
func pairOf(p llm.Part) (id string, ok bool) {
	switch p := p.(type) {
	case *llm.ToolCall:
		return p.ID, true
	case *llm.ToolResult:
		return p.ID, true
	}
	return "", false
}
