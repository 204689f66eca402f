package chat

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// reasoning is what an assistant thought in one message, as it goes back.
type reasoning struct {
	text    strings.Builder
	came    string // the field it came in
	details []json.RawMessage
}

// add takes one part.
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

// field is where the text goes. A vendor is sent only the field that it is known to take: by configuration, or because
// it came from there.
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

// replayed are the structured entries, as they came but for places in a stream that one vendor refuses to see again.
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
		if err != nil { // it was JSON before
			panic("chat: encode a reasoning entry: " + err.Error())
		}
		out[i] = raw
	}
	return out
}

// plainTyped tells that entries are in the dialect of Kimi, whose types have no prefix and which wants the text beside them.
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
