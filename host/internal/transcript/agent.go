package transcript

import (
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// agentActivity returns an item of what happened with an agent.
func (it *item) agentActivity() protocol.SubAgentActivityItem {
	a := it.Agent
	if a == nil { // of another version
		a = &event.AgentActivity{}
	}
	return protocol.SubAgentActivityItem{
		ItemHeader: it.header(), Kind: protocol.SubAgentActivityKind(a.Kind), AgentThreadID: string(a.Thread), AgentPath: a.Path,
		Model: optional(a.Model), ReasoningEffort: optional(a.Effort),
	}
}
