package chat

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// details are the structured reasoning entries, which a gateway expects back unchanged, including signatures and encrypted parts.
// Streams split them; consecutive parts of the same kind are joined to an entry.
type details struct {
	list []*detail
}

type detail struct {
	kind   string
	fields map[string]json.RawMessage
	text   strings.Builder // of the field that textOf returns
}

// textOf returns the field of an entry that streams append to. Encrypted entries have none: they arrive complete.
func textOf(kind string) string {
	switch kind {
	case "reasoning.text":
		return "text"
	case "reasoning.summary", "summary":
		return "summary"
	}
	return ""
}

// add adds the entries of a chunk and returns their text for display. A summary is omitted if the reasoning itself was displayed.
func (d *details) add(raw json.RawMessage, told bool) string {
	var entries []map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return ""
	}
	var people strings.Builder
	for _, e := range entries {
		if e == nil {
			continue
		}
		var kind, text string
		_ = json.Unmarshal(e["type"], &kind) // an entry without a type is kept as it is
		grows := textOf(kind)
		if grows != "" {
			_ = json.Unmarshal(e[grows], &text)
			if kind != "summary" || !told {
				people.WriteString(text)
			}
		}
		if n := len(d.list); grows != "" && n > 0 && d.list[n-1].kind == kind && !conflict(d.list[n-1].fields, e) {
			d.list[n-1].grow(e, text)
			continue
		}
		next := &detail{kind: kind, fields: e}
		next.text.WriteString(text)
		d.list = append(d.list, next)
	}
	return people.String()
}

// grow adds a part: its text, and fields that the entry lacks so far, such as a signature at the end.
func (d *detail) grow(piece map[string]json.RawMessage, text string) {
	d.text.WriteString(text)
	for k, v := range piece {
		if !meant(d.fields[k]) && said(v) {
			d.fields[k] = v
		}
	}
}

// conflict reports whether two parts belong to different entries.
func conflict(a, b map[string]json.RawMessage) bool {
	for _, k := range [...]string{"id", "index", "format", "signature"} {
		if meant(a[k]) && meant(b[k]) && string(a[k]) != string(b[k]) {
			return true
		}
	}
	return false
}

// meant reports whether a value is neither absent, null nor empty.
func meant(raw json.RawMessage) bool { return said(raw) && string(raw) != `""` }

// entries returns the complete entries.
func (d *details) entries() []json.RawMessage {
	out := make([]json.RawMessage, len(d.list))
	for i, e := range d.list {
		if f := textOf(e.kind); f != "" && e.fields[f] != nil {
			e.fields[f] = quoted(e.text.String())
		}
		raw, err := protocol.Encode(e.fields)
		if err != nil { // cannot fail: it was JSON before
			panic("chat: encode a reasoning entry: " + err.Error())
		}
		out[i] = raw
	}
	return out
}
