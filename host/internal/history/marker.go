package history

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// SummaryMarker is the element around the summary of a compacted conversation.
const SummaryMarker = "context_summary"

// FilesRestored is the element around the message that the user has undone changes of files.
const FilesRestored = "files_restored"

// ThreadForked is the element around the message that a copy of a conversation lacks what the original has.
const ThreadForked = "thread_forked"

// AgentsStopped is the element around the message that agents were at work when the host stopped.
const AgentsStopped = "agents_stopped"

// IsAgentsStopped reports whether a message says that agents were stopped.
func IsAgentsStopped(m llm.Message) bool {
	return m.Role != llm.RoleAssistant && strings.HasPrefix(m.Text(), "<"+AgentsStopped+">")
}

// goalOpen and goalClose surround the message with which a thread continues by itself towards its goal; codex-compatible.
const (
	goalOpen  = `<codex_internal_context source="goal">`
	goalClose = "</codex_internal_context>"
)

// GoalContinued returns the text of such a message.
func GoalContinued(text string) string { return goalOpen + "\n" + text + "\n" + goalClose }

// IsGoalContinued reports whether a message is one.
func IsGoalContinued(m llm.Message) bool {
	return m.Role == llm.RoleUser && strings.HasPrefix(m.Text(), goalOpen)
}

// RecordLost is the element around the message that part of the conversation's record is lost.
const RecordLost = "record_lost"

// markers are the elements around content of user messages that is not the user's; codex-compatible where codex has them.
var markers = []string{
	SummaryMarker, "environment_context", "permissions instructions", "model_switch", "collaboration_mode", "personality_spec",
	"skills_instructions", "apps_instructions", "plugins_instructions", "plugins_context", "environments_instructions", "tools",
	"multi_agent_mode", "realtime_conversation", "context_window", "context_window_guidance", "rollout_budget", "token_budget",
	"git_attribution", "turn_aborted", FilesRestored, ThreadForked, RecordLost, AgentsStopped, "budget", "user_shell_command", "subagent_notification", "skill",
	"review_result", mailMarker,
}

// FromUser reports whether a message is a person's own words. Context, notes of the host and summaries are user messages too;
// their elements distinguish them.
func FromUser(m llm.Message) bool {
	if m.Role != llm.RoleUser {
		return false
	}
	for _, p := range m.Parts {
		if t, ok := p.(*llm.Text); ok && isMarked(t.Text) {
			return false
		}
	}
	return true
}

// isMarked reports whether a text is inside one of the host's elements, in any case.
func isMarked(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '<' && text[0] != '#' {
		return false // true for most of what people write
	}
	const longest = 64
	head := strings.ToLower(text[:min(len(text), longest)])
	tail := strings.ToLower(text[max(len(text)-longest, 0):])
	for _, name := range markers {
		if strings.HasPrefix(head, "<"+name+">") && strings.HasSuffix(tail, "</"+name+">") {
			return true
		}
	}
	switch {
	case strings.HasPrefix(head, "# agents.md instructions"):
		return strings.HasSuffix(tail, "</instructions>")
	case strings.HasPrefix(head, `<hook_prompt hook_run_id="`):
		return strings.HasSuffix(tail, "</hook_prompt>")
	case strings.HasPrefix(head, goalOpen):
		return strings.HasSuffix(tail, goalClose)
	case strings.HasPrefix(head, "<external_"):
		key, _, ok := strings.Cut(text[len("<external_"):], ">")
		return ok && strings.HasSuffix(strings.ToLower(text), "</external_"+strings.ToLower(key)+">")
	}
	return false
}
