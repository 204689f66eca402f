package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
)

// collaboration is the namespace of the tools by which agents work with each other.
const collaboration = "collaboration."

// agentCall returns a call of such a tool in codex's format; nil: it is another tool. The call's activity has said which agent it is about.
func (j *jsonl) agentCall(it event.Item) ordered {
	name, ok := strings.CutPrefix(it.Tool, collaboration)
	if !ok || it.Plugin != "" || it.Type != event.ItemTool {
		return nil
	}
	var args struct {
		Message *string `json:"message"`
	}
	_ = json.Unmarshal(it.Arguments, &args) // what is not there is null
	status := string(it.Status)
	if it.Status != event.StatusCompleted && it.Status != event.StatusInProgress {
		status = string(event.StatusFailed)
	}
	receivers := []event.ThreadID{}
	if a, ok := j.agents[it.Call]; ok {
		receivers = append(receivers, a)
	}
	if name == "wait_agent" { // codex-compatible
		name = "wait"
	}
	return ordered{
		"type": "collab_tool_call", "tool": name, "sender_thread_id": j.thread, "receiver_thread_ids": receivers, "prompt": args.Message,
		"agents_states": map[string]any{}, "status": status,
	}
}

// activity remembers which agent a call is about.
func (j *jsonl) activity(it event.Item) {
	if it.Type == event.ItemAgentActivity && it.Agent != nil && it.Call != "" {
		j.agents[it.Call] = it.Agent.Thread
	}
}

// Goal says in one line how far the work on a goal is.
func Goal(g goal.Goal) string {
	used := fmt.Sprintf("%d tokens", g.Tokens)
	if g.Budget > 0 {
		used = fmt.Sprintf("%d of %d tokens", g.Tokens, g.Budget)
	}
	line := fmt.Sprintf("goal: %s after %v and %s", g.Status, time.Duration(g.Seconds)*time.Second, used)
	if g.Reason != "" {
		line += ": " + OneLine(g.Reason, 200)
	}
	return line
}
