package history

import (
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Inherit returns the part of a conversation with which an agent begins that was spawned in it. With turns 0, that is all of it: calls
// without an output are normalised like those of any conversation. Otherwise it is what was said in the last turns: the words of
// the user, and the last text of the agent in each turn that had ended. A turn begins with words of the user or with a task by mail.
func Inherit(ms []llm.Message, turns int) []llm.Message {
	if turns == 0 {
		return slices.Clip(ms)
	}
	var out []llm.Message
	var last *llm.Message // the last text of the turn
	begun := false        // the words that begin a turn may be several messages
	for _, m := range ms[lastTurns(ms, turns):] {
		switch {
		case begins(m):
			if !begun && last != nil {
				out = append(out, *last)
			}
			last, begun = nil, true
			if FromUser(m) {
				out = append(out, m)
			}
		case m.Role == llm.RoleAssistant:
			begun = false
			if text := m.Text(); strings.TrimSpace(text) != "" {
				last = &llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: text}}}
			}
		}
	}
	return out // without the last text: its turn has not ended
}

// begins reports whether a turn begins with a message.
func begins(m llm.Message) bool {
	return FromUser(m) || IsTask(m)
}

// IsTask reports whether a message is mail of another agent with a task.
func IsTask(m llm.Message) bool {
	return IsMail(m) && strings.HasPrefix(m.Text(), "<"+mailMarker+">\nMessage Type: "+mailTypes[event.MailTask]+"\n")
}

// lastTurns returns where the last n turns begin. If there are fewer, it is the beginning of the first; if there is none, the end.
func lastTurns(ms []llm.Message, n int) int {
	at := len(ms)
	next := false // the message behind it begins a turn too
	for i, m := range slices.Backward(ms) {
		is := begins(m)
		switch {
		case !is:
			next = false
			continue
		case !next:
			if n == 0 {
				return at
			}
			n--
		}
		next, at = true, i
	}
	return at
}
