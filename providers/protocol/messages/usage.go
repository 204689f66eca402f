package messages

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// usage combines the token counts in several events of a response: later figures override earlier ones, and null is ignored.
type usage map[string]json.RawMessage

func (u *usage) merge(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return
	}
	for k, v := range fields {
		if string(v) == "null" {
			continue
		}
		if *u == nil {
			*u = usage{}
		}
		(*u)[k] = v
	}
}

// maxTokensCounted is a limit above any real count; larger figures are invalid.
const maxTokensCounted = 1 << 50

func figure(fields map[string]json.RawMessage, key string) *int64 {
	var n *int64
	if json.Unmarshal(fields[key], &n) != nil || n == nil || *n < 0 || *n > maxTokensCounted {
		return nil
	}
	return n
}

func (u usage) object(key string) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(u[key], &fields) // not an object: no figures
	return fields
}

// canonical adds cached tokens to the input, which the vendor counts separately. Their lifetimes are only in the raw object.
func (u usage) canonical() llm.Usage {
	var t protocol.Tokens
	t.CacheRead = figure(u, "cache_read_input_tokens")
	if t.CacheWrite = figure(u, "cache_creation_input_tokens"); t.CacheWrite == nil {
		kept := u.object("cache_creation")
		t.CacheWrite = protocol.Sum(figure(kept, "ephemeral_5m_input_tokens"), figure(kept, "ephemeral_1h_input_tokens"))
	}
	if plain := figure(u, "input_tokens"); plain != nil {
		t.Input = protocol.Sum(plain, t.CacheRead, t.CacheWrite)
	}
	t.Output = figure(u, "output_tokens")
	t.Reasoning = figure(u.object("output_tokens_details"), "thinking_tokens")
	if len(u) == 0 {
		return t.Usage(nil)
	}
	raw, err := protocol.Encode(u)
	if err != nil { // cannot fail: the values come from JSON
		panic("messages: encode usage: " + err.Error())
	}
	return t.Usage(raw)
}
