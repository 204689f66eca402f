package hub

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxClientID is the maximum length of a client's identity of a message, in bytes. Usually it is a UUID.
const maxClientID = 256

// turn converts input.
func (in Input) turn() (turn.Input, error) {
	for key := range in.Context {
		if !contextKey(key) {
			return turn.Input{}, fmt.Errorf("invalid key %.80q of additional context: use 1 to 64 letters, digits, dashes and underscores", key)
		}
	}
	if len(in.ClientID) > maxClientID {
		return turn.Input{}, fmt.Errorf("the client's id of a message has %d bytes; it must have at most %d", len(in.ClientID), maxClientID)
	}
	return turn.Input{Parts: in.Parts, Context: in.Context, ClientID: in.ClientID}, nil
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
