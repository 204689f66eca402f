package script

import (
	"encoding/json"
	"maps"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Namespace is the metadata namespace in which responses contain their thread's position.
const Namespace = "scripted"

// Position is a thread's position in its script. It is a value: playing returns a new one.
type Position struct {
	Script  string            `json:"script,omitempty"`  // digest of its script
	Request int               `json:"request,omitempty"` // requests so far
	Plays   map[int]int       `json:"plays,omitempty"`   // index of a step → how often it was played; unlimited steps are not counted
	Vars    map[string]string `json:"vars,omitempty"`    // captured variables
}

func (p Position) clone() Position {
	p.Plays, p.Vars = maps.Clone(p.Plays), maps.Clone(p.Vars)
	return p
}

// After reports whether p is later than q in the same script, or in another script.
func (p Position) After(q Position) bool {
	return p.Script != q.Script || p.Request > q.Request
}

func (p Position) metadata() llm.Metadata {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot fail: maps of numbers and strings
	}
	return llm.Metadata{Namespace: b}
}

// Locate determines the position of a conversation: the latest of
//
//   - known, which the caller remembers for the thread;
//   - the position in the metadata of the last response in the conversation;
//   - if there is neither, but there are responses, the result of a replay: the script is played against each prefix of the conversation that precedes a response. Steps that leave no trace (errors, silence) are skipped.
func (p *Player) Locate(req *llm.Request, known Position) Position {
	best := Position{Script: p.digest}
	if known.Script == p.digest {
		best = known
	}
	answered := false
	for i := len(req.Messages) - 1; i >= 0; i-- {
		m := &req.Messages[i]
		if m.Role != llm.RoleAssistant {
			continue
		}
		answered = true
		if raw, ok := carried(m); ok {
			var pos Position
			if json.Unmarshal(raw, &pos) == nil && pos.Script == p.digest && pos.Request > best.Request {
				best = pos
			}
			break // earlier responses have earlier positions
		}
	}
	if best.Request == 0 && answered {
		return p.replay(req)
	}
	return best.clone()
}

// carried returns the position in an assistant message, of any script.
func carried(m *llm.Message) (json.RawMessage, bool) {
	if raw, ok := m.Metadata[Namespace]; ok {
		return raw, true
	}
	for _, part := range m.Parts {
		var meta llm.Metadata
		switch part := part.(type) {
		case *llm.Text:
			meta = part.Metadata
		case *llm.Reasoning:
			meta = part.Metadata
		case *llm.ToolCall:
			meta = part.Metadata
		}
		if raw, ok := meta[Namespace]; ok {
			return raw, true
		}
	}
	return nil, false
}

func (p *Player) replay(req *llm.Request) Position {
	pos := Position{Script: p.digest}
	for i := range req.Messages {
		if req.Messages[i].Role != llm.RoleAssistant || !beginsAnswer(req.Messages, i) {
			continue
		}
		before := *req
		before.Messages = req.Messages[:i]
		for range len(p.steps) + 1 {
			conv := look(&before)
			step, next, err := p.choose(conv, pos)
			if err != nil {
				return pos
			}
			pos = next
			pos.Vars = step.gather(conv, pos.Vars)
			if step.leavesTrace {
				break
			}
		}
	}
	return pos
}
