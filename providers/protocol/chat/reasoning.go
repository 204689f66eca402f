package chat

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// reasoning is the reasoning of a message that is sent back.
type reasoning struct {
	text    strings.Builder
	came    string // its original field
	details []json.RawMessage
}

// add adds a part.
func (t *reasoning) add(r *protocol.Request, p *llm.Reasoning) {
	var meta struct {
		Field   string            `json:"reasoningField"`
		Details []json.RawMessage `json:"reasoningDetails"`
	}
	protocol.MetaOf(p.Metadata, r.Namespace, &meta)
	t.text.WriteString(p.Text)
	t.came = cmp.Or(t.came, meta.Field)
	t.details = append(t.details, meta.Details...)
}

// field returns the field for the text. A vendor is only sent a field that it is known to accept: by configuration, or because it
// came from there.
func (t *reasoning) field(c *protocol.Compat) (name, text string, ok bool) {
	name, text = cmp.Or(c.ReasoningField, t.came), t.text.String()
	switch {
	case c.RequireReasoning, plainTyped(t.details):
		return cmp.Or(name, fieldReasoning), text, true
	case name == "" || text == "":
		return "", "", false
	}
	return name, text, true
}

// replayed returns the structured entries unchanged, except for stream indices that one vendor rejects.
func (t *reasoning) replayed() []json.RawMessage {
	if !plainTyped(t.details) {
		return t.details
	}
	out := make([]json.RawMessage, len(t.details))
	for i, d := range t.details {
		var entry map[string]json.RawMessage
		if json.Unmarshal(d, &entry) != nil || !bare(entry["type"]) {
			out[i] = d
			continue
		}
		delete(entry, "index")
		raw, err := protocol.Encode(entry)
		if err != nil { // cannot fail: it was JSON before
			panic("chat: encode a reasoning entry: " + err.Error())
		}
		out[i] = raw
	}
	return out
}

// plainTyped reports whether entries are in Kimi's dialect, whose types have no prefix and which requires the text next to them.
func plainTyped(details []json.RawMessage) bool {
	for _, d := range details {
		var entry struct {
			Type json.RawMessage `json:"type"`
		}
		if json.Unmarshal(d, &entry) == nil && bare(entry.Type) {
			return true
		}
	}
	return false
}

func bare(kind json.RawMessage) bool {
	return string(kind) == `"summary"` || string(kind) == `"encrypted"`
}
