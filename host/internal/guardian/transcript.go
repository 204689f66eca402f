package guardian

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Limits of what the reviewer reads, in tokens. Compatible with codex.
const (
	messageBudget = 10_000 // messages, in total
	toolBudget    = 10_000 // calls and their outputs, in total
	maxMessage    = 2_000
	maxTool       = 1_000
	maxAction     = 16_000
	maxReason     = 512
	maxOthers     = 40 // the most recent entries that are not the user's
)

// entry is a message, a call or an output in a conversation.
type entry struct {
	n    int // its position, from 1
	who  string
	text string
	user bool
	tool bool
}

// transcript returns the part of a conversation that the reviewer reads, within its limits: the user's first and last messages,
// then the user's other messages from the latest on, then everything else from the latest on. Messages of the host are left out,
// and so are the entries that the reviewer has read before.
func transcript(entries []entry, read int) string {
	entries = entries[read:]
	keep := map[int]bool{}
	left := map[bool]int64{false: messageBudget, true: toolBudget} // for messages, and for calls and outputs
	take := func(e entry) bool {
		n := history.Tokens(int64(len(e.text)))
		if keep[e.n] || n > left[e.tool] {
			return keep[e.n]
		}
		left[e.tool] -= n
		keep[e.n] = true
		return true
	}
	var users []entry
	for _, e := range entries {
		if e.user {
			users = append(users, e)
		}
	}
	if len(users) > 0 {
		take(users[0])
		take(users[len(users)-1])
	}
	for _, e := range slices.Backward(users) {
		if !take(e) {
			break
		}
	}
	others := 0
	full := map[bool]bool{}
	for _, e := range slices.Backward(entries) {
		if e.user {
			continue
		}
		if others++; others > maxOthers {
			break
		}
		// An older entry is left out after a newer one of its kind did not fit.
		if !full[e.tool] && !take(e) {
			full[e.tool] = true
		}
	}
	var b strings.Builder
	for _, e := range entries {
		if keep[e.n] {
			fmt.Fprintf(&b, "[%d] %s: %s\n", e.n, e.who, e.text)
		}
	}
	if len(keep) < len(entries) {
		fmt.Fprintf(&b, "(%d further entries are left out.)\n", len(entries)-len(keep))
	}
	return b.String()
}

func entriesOf(ms []llm.Message) []entry {
	var out []entry
	add := func(who, text string, limit int64, user, tool bool) {
		if strings.TrimSpace(text) != "" {
			out = append(out, entry{len(out) + 1, who, shorten(text, limit), user, tool})
		}
	}
	for _, m := range ms {
		switch {
		case m.Role == llm.RoleUser && history.FromUser(m):
			add("user", m.Text(), maxMessage, true, false)
		case m.Role == llm.RoleUser, m.Role == llm.RoleSystem:
			continue // a message of the host
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				if m.Role == llm.RoleAssistant {
					add("agent", p.Text, maxMessage, false, false)
				}
			case *llm.ToolCall:
				add("agent calls "+p.Name, p.Input, maxTool, false, true)
			case *llm.ToolResult:
				add("output of "+p.Name, llm.Message{Parts: p.Content}.Text(), maxTool, false, true)
			}
		}
	}
	return out
}

// bytesPerToken is the estimate that gantry uses everywhere.
const bytesPerToken = 4

// shorten keeps the beginning and the end of a text.
func shorten(text string, tokens int64) string {
	most := int(tokens * bytesPerToken)
	if len(text) <= most {
		return text
	}
	half := most / 2
	omitted := history.Tokens(int64(len(text) - 2*half))
	return strings.ToValidUTF8(text[:half], "") + fmt.Sprintf(`<truncated omitted_approx_tokens="%d" />`, omitted) + strings.ToValidUTF8(text[len(text)-half:], "")
}
