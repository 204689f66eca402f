package hub

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// turn converts input.
func (in Input) turn() (turn.Input, error) {
	for key := range in.Context {
		if !contextKey(key) {
			return turn.Input{}, fmt.Errorf("invalid key %.80q of additional context: use 1 to 64 letters, digits, dashes and underscores", key)
		}
	}
	return turn.Input{Parts: in.Parts, Context: in.Context}, nil
}

// wire returns the input for another process: as text, which older versions understand, or as parts if it is more than text.
func (in Input) wire() (text string, parts llm.Parts) {
	if len(in.Parts) == 1 {
		if t, ok := in.Parts[0].(*llm.Text); ok {
			return t.Text, nil
		}
	}
	return "", in.Parts
}

func (in Input) wireContext() map[string]threadsocket.AdditionalContext {
	out := map[string]threadsocket.AdditionalContext{}
	for key, text := range in.Context {
		out[key] = threadsocket.AdditionalContext{Value: text}
	}
	return out
}

// contextKey reports whether a key is valid as part of an element's name.
func contextKey(key string) bool {
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return key != "" && len(key) <= 64
}
