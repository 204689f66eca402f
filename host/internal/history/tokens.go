package history

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// imageBytes is what an inline image counts as, whatever its size; codex-compatible.
const imageBytes = 7_373

// Estimate guesses the tokens of messages that no provider has counted yet.
func Estimate(ms []llm.Message) int64 {
	var n int64
	for _, m := range ms {
		n += Tokens(estimateBytes(m.Parts))
	}
	return n
}

func estimateBytes(parts []llm.Part) int64 {
	const frame = 32 // names and braces around the content
	var n int64
	for _, p := range parts {
		n += frame
		switch p := p.(type) {
		case *llm.Text:
			n += int64(len(p.Text))
		case *llm.Reasoning:
			n += int64(len(p.Text)) + metadataBytes(p.Metadata)
		case *llm.Media:
			n += imageBytes
		case *llm.ToolCall:
			n += int64(len(p.Name) + len(p.Namespace) + len(p.ID) + len(p.Input))
		case *llm.ToolResult:
			n += int64(len(p.ID)) + estimateBytes(p.Content)
		}
	}
	return n
}

func metadataBytes(m llm.Metadata) int64 {
	var n int64
	for _, v := range m {
		n += int64(len(json.RawMessage(v)))
	}
	return n
}
