package script

import (
	"encoding/json"
	"maps"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Namespace is the metadata namespace in which answers carry their thread's position.
const Namespace = "scripted"

// Position is where a thread stands in its script. It is a value: playing returns a new one.
type Position struct {
	Script  string            `json:"script,omitempty"`  // digest of the script that it belongs to
	Request int               `json:"request,omitempty"` // requests answered so far
	Plays   map[int]int       `json:"plays,omitempty"`   // index of a step → how often it was played; steps without end are not counted
	Vars    map[string]string `json:"vars,omitempty"`    // what was captured
}

func (p Position) clone() Position {
	p.Plays, p.Vars = maps.Clone(p.Plays), maps.Clone(p.Vars)
	return p
}

// After tells whether p is further in the same script than q.
func (p Position) After(q Position) bool {
	return p.Script != q.Script || p.Request > q.Request
}

func (p Position) metadata() llm.Metadata {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // maps of numbers and strings always marshal
	}
	return llm.Metadata{Namespace: b}
}

// Locate finds out where a conversation stands: the furthest of
//
//   - known, what the caller remembers of the thread;
//   - what the answers in the conversation carry in their metadata;
//   - when neither says anything and there are answers, a replay: the script is played against each beginning of the
//     conversation that an assistant message followed. Steps that leave nothing behind (errors, silence) are passed over.
func (p *Player) Locate(req *llm.Request, known Position) Position {
	best := Position{Script: p.digest}
	if known.Script == p.digest {
		best = known
	}
	answers := 0
	for _, m := range req.Messages {
		if m.Role != llm.RoleAssistant {
			continue
		}
		answers++
		p.further(&best, m.Metadata)
		for _, part := range m.Parts {
			switch part := part.(type) {
			case *llm.Text:
				p.further(&best, part.Metadata)
			case *llm.Reasoning:
				p.further(&best, part.Metadata)
			case *llm.ToolCall:
				p.further(&best, part.Metadata)
			}
		}
	}
	if best.Request == 0 && answers > 0 {
		return p.replay(req)
	}
	return best.clone()
}

func (p *Player) further(best *Position, m llm.Metadata) {
	raw, ok := m[Namespace]
	if !ok {
		return
	}
	var pos Position
	if json.Unmarshal(raw, &pos) == nil && pos.Script == p.digest && pos.Request > best.Request {
		*best = pos
	}
}

func (p *Player) replay(req *llm.Request) Position {
	pos := Position{Script: p.digest}
	for i, m := range req.Messages {
		if m.Role != llm.RoleAssistant {
			continue
		}
		before := *req
		before.Messages = req.Messages[:i]
		for range len(p.steps) + 1 {
			step, next, err := p.choose(&before, pos)
			if err != nil {
				return pos
			}
			next, vars := next.clone(), step.gather(look(&before), next.Vars)
			next.Vars = vars
			pos = next
			if step.leavesTrace {
				break
			}
		}
	}
	return pos
}
