package messages

import (
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"` // empty if the vendor does not show it
	Signature string `json:"signature"`
}

type redactedBlock struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// thought returns the original block of reasoning, or nil if the vendor would reject it.
func (l *lowering) thought(p *llm.Reasoning) any {
	s, ok := claude.SealOf(l.Request, p)
	switch {
	case !ok:
		return nil
	case s.Signature == "" && s.RedactedData != "":
		return redactedBlock{Type: "redacted_thinking", Data: s.RedactedData}
	}
	return thinkingBlock{Type: "thinking", Thinking: p.Text, Signature: s.Signature}
}
