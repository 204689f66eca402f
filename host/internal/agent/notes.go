package agent

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// TakeNotes returns what the model of a root has to be told: which agents were at work when the host stopped. It is told once, because
// the history then has it.
func TakeNotes(root *thread.Thread) []string {
	var stopped []string
	for _, e := range rosterOf(root.Feature(FeatureID)).Agents {
		if e.Stopped {
			stopped = append(stopped, e.Path)
		}
	}
	if len(stopped) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("<%[1]s>\nThe program that runs you stopped while these agents were at work: %s. They were interrupted and have not gone on. "+
		"What they had done is in their conversations: followup_task lets one go on, list_agents shows them.\n</%[1]s>", history.AgentsStopped, strings.Join(stopped, ", "))}
}

// Instructions tells a new agent who it is.
func Instructions(path string, threads int, inherits bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are the agent %s. Another agent, %s, has spawned you and given you a task, as mail in an element <agent_message>. ", path, parentOf(path))
	if inherits {
		b.WriteString("What comes before this is the conversation of that agent: it is what you know, and not what you have said or done. " +
			"Commands that run there, approvals and the tasks of its user are not yours. ")
	}
	fmt.Fprintf(&b, "Your last message of a turn is delivered to it; it sees nothing else of what you do, and you talk to no user. "+
		"All agents work in the same folder at the same time. You may spawn agents yourself; at most %d are at work at once, including you and the one at the root.", threads)
	return b.String()
}
