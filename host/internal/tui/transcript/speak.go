package transcript

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
)

// spokenLines is how much of an output is spoken, from its end.
const spokenLines = 10

// Speak returns an item as text for a screen reader: who says or does what, without marks, boxes and columns. It is empty if the item has
// nothing to say.
func Speak(it *client.Item) string {
	if n := it.Notice; n != nil {
		role := "Notice"
		switch n.Level {
		case client.Warning:
			role = "Warning"
		case client.Error:
			role = "Error"
		}
		return said(role, n.Text, n.Next)
	}
	switch b := it.Body.(type) {
	case protocol.UserMessageItem:
		return said("You", Input(b.Content))
	case protocol.AgentMessageItem:
		return said("Agent", it.Text())
	case protocol.PlanItem:
		return said("Plan", it.Text())
	case protocol.ReasoningItem:
		return said("Thought", it.Text())
	case protocol.CommandExecutionItem:
		role, end := "Command", outcome(b.Status)
		if b.Source == protocol.CommandUserShell {
			role = "Your command"
		}
		if b.ExitCode != nil && *b.ExitCode != 0 {
			end += fmt.Sprintf(" with exit status %d", *b.ExitCode)
		}
		text := said(role, CommandLine(b), end)
		if out := strings.TrimRight(it.Text(), "\n "); out != "" {
			lines := strings.Split(out, "\n")
			left := max(len(lines)-spokenLines, 0)
			if lines = lines[left:]; left > 0 {
				lines = append([]string{fmt.Sprintf("%d lines before these", left)}, lines...)
			}
			text += "\n" + said("Output", strings.Join(lines, "\n"))
		}
		return text
	case protocol.FileChangeItem:
		var out []string
		for _, c := range b.Changes {
			out = append(out, said("Change of "+term.Plain(c.Path)+", "+outcome(b.Status), c.Diff))
		}
		return strings.Join(out, "\n")
	case protocol.MCPToolCallItem:
		return said("Tool", b.Server+" "+b.Tool, outcome(b.Status))
	case protocol.DynamicToolCallItem:
		return said("Tool", b.Tool, outcome(b.Status))
	case protocol.WebSearchItem:
		return said("Web search", b.Query)
	case protocol.ImageViewItem:
		return said("Image", b.Path)
	case protocol.EnteredReviewModeItem:
		return said("Review of", b.Review)
	case protocol.ExitedReviewModeItem:
		return said("Review", b.Review)
	case protocol.ContextCompactionItem:
		return said("Notice", "the conversation was compacted")
	}
	return ""
}

// said joins who speaks and what, each part on a line of its own.
func said(role string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimSpace(term.Clean(p)); p != "" {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return role + ": " + strings.Join(out, "\n")
}

func outcome(s protocol.ItemStatus) string {
	switch s {
	case protocol.ItemCompleted:
		return "done"
	case protocol.ItemFailed:
		return "failed"
	case protocol.ItemDeclined:
		return "declined"
	}
	return "in progress"
}
