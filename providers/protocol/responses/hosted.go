package responses

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A tool that the vendor runs is one item on the wire, and a call with its result for us. The item itself is stored with the
// result, because the vendor requires it back unchanged; images are removed from it, because the result contains them.

const imageCall = "image_generation_call"

type hostedItem struct {
	Type          string          `json:"type"`
	ID            string          `json:"id"`
	Status        string          `json:"status"`
	Action        json.RawMessage `json:"action"`
	Queries       json.RawMessage `json:"queries"`
	Results       json.RawMessage `json:"results"`
	Code          json.RawMessage `json:"code"`
	ContainerID   json.RawMessage `json:"container_id"`
	Outputs       json.RawMessage `json:"outputs"`
	Result        json.RawMessage `json:"result"`
	OutputFormat  json.RawMessage `json:"output_format"`
	RevisedPrompt json.RawMessage `json:"revised_prompt"`
	ServerLabel   json.RawMessage `json:"server_label"`
	Name          json.RawMessage `json:"name"`
	Arguments     json.RawMessage `json:"arguments"`
	Output        json.RawMessage `json:"output"`
	Error         json.RawMessage `json:"error"`
}

// isHosted reports whether items of a type are calls of tools that the vendor runs.
func isHosted(itemType string) bool {
	name, ok := strings.CutSuffix(itemType, "_call")
	return ok && name != "" && itemType != typeFunctionCall && itemType != typeCustomCall
}

func (h *hostedItem) name() string {
	if h.Type == "computer_call" {
		return "computer_use"
	}
	return strings.TrimSuffix(h.Type, "_call")
}

func (h *hostedItem) input() string {
	switch h.Type {
	case "file_search_call":
		return object(field{"queries", h.Queries})
	case "code_interpreter_call":
		return object(field{"code", h.Code}, field{"container_id", h.ContainerID})
	case imageCall:
		return object(field{"revised_prompt", h.RevisedPrompt})
	case "mcp_call":
		return object(field{"server_label", h.ServerLabel}, field{"name", h.Name}, field{"arguments", h.Arguments})
	}
	if known(h.Action) {
		return string(h.Action)
	}
	return object(field{"arguments", h.Arguments})
}

type field struct {
	name  string
	value json.RawMessage
}

// object returns a JSON object with the known fields, in their order.
func object(fields ...field) string {
	var b strings.Builder
	b.WriteByte('{')
	for _, f := range fields {
		if !known(f.value) {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + f.name + `":`)
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.String()
}

func known(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// words returns a JSON value as text: a string without its quotes, other values unchanged.
func words(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func (h *hostedItem) content() llm.Parts {
	if known(h.Error) {
		var e struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(h.Error, &e) == nil && e.Message != "" {
			return llm.Parts{&llm.Text{Text: e.Message}}
		}
		return llm.Parts{&llm.Text{Text: words(h.Error)}}
	}
	switch h.Type {
	case imageCall:
		if data, err := base64.StdEncoding.DecodeString(words(h.Result)); err == nil && len(data) > 0 {
			mediaType := "image/png"
			if f := words(h.OutputFormat); f != "" && f != "null" {
				mediaType = "image/" + f
			}
			return llm.Parts{&llm.Media{MediaType: mediaType, Data: data}}
		}
		return llm.Parts{&llm.Text{Text: h.state()}}
	case "code_interpreter_call":
		if parts := codeOutputs(h.Outputs); len(parts) > 0 {
			return parts
		}
	}
	var action struct {
		Sources json.RawMessage `json:"sources"`
	}
	_ = json.Unmarshal(h.Action, &action) // not an object: no sources
	for _, raw := range []json.RawMessage{h.Output, h.Results, action.Sources} {
		if known(raw) {
			return llm.Parts{&llm.Text{Text: words(raw)}}
		}
	}
	return llm.Parts{&llm.Text{Text: h.state()}}
}

func (h *hostedItem) state() string {
	if h.Status == "" {
		return "completed"
	}
	return h.Status
}

func codeOutputs(raw json.RawMessage) llm.Parts {
	var outputs []struct {
		Type string `json:"type"`
		Logs string `json:"logs"`
		URL  string `json:"url"`
	}
	_ = json.Unmarshal(raw, &outputs) // invalid: nothing to show
	var parts llm.Parts
	for _, o := range outputs {
		switch {
		case o.Logs != "":
			parts = append(parts, &llm.Text{Text: o.Logs})
		case o.URL != "":
			parts = append(parts, &llm.Media{MediaType: "image/png", URL: o.URL})
		}
	}
	return parts
}

// hosted publishes the call and result of a tool that the vendor ran.
func (d *decoder) hosted(dst []llm.Event, it *item, raw json.RawMessage) []llm.Event {
	var h hostedItem
	if json.Unmarshal(raw, &h) != nil {
		return dst // from a later version; nothing depends on it
	}
	id := h.ID
	if id == "" {
		id = d.newID()
	}
	if d.calls.Used(id) {
		return dst
	}
	dst = d.calls.Whole(dst, llm.ToolCall{ID: id, Name: h.name(), Input: h.input(), ProviderExecuted: true}, it.meta)
	return append(dst, llm.ToolResultDone{Result: llm.ToolResult{
		ID: id, Name: h.name(), Content: h.content(), IsError: known(h.Error) || h.Status == "failed",
		ProviderExecuted: true, Metadata: with(it.meta, "item", kept(h.Type, raw)).Under(d.life.Namespace),
	}})
}

// kept returns the part of an item that is stored in the metadata.
func kept(itemType string, raw json.RawMessage) json.RawMessage {
	if itemType != imageCall {
		return raw
	}
	return withField(raw, "result", nil)
}

// withField sets a field of an object, or removes it if value is nil.
func withField(raw json.RawMessage, name string, value any) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	delete(fields, name)
	if value != nil {
		fields[name], _ = protocol.Encode(value) // cannot fail for a string
	}
	out, err := protocol.Encode(fields)
	if err != nil {
		return raw
	}
	return out
}

// hostedPairs finds the results of calls of the vendor's own tools. They may be in other messages, and a generated ID may occur
// again in a later response.
func hostedPairs(messages []llm.Message) map[*llm.ToolCall]*llm.ToolResult {
	pairs := map[*llm.ToolCall]*llm.ToolResult{}
	open := map[string]*llm.ToolCall{}
	for i := range messages {
		for _, p := range messages[i].Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				if p.ProviderExecuted {
					open[p.ID] = p
				}
			case *llm.ToolResult:
				if c := open[p.ID]; c != nil && p.ProviderExecuted {
					pairs[c] = p
					delete(open, p.ID)
				}
			}
		}
	}
	return pairs
}

// hostedPair sends the original item of a hosted call, or describes the call in words if there is none.
func (l *lowering) hostedPair(c *llm.ToolCall) error {
	res := l.hosted[c]
	l.told[res] = true
	if res != nil && !l.orphaned {
		if item := l.original(res); item != nil {
			l.add(item)
			return nil
		}
	}
	return l.summarise(c.Name, c.Input, res)
}

// original returns the vendor's item for a result, or nil if it is incomplete.
func (l *lowering) original(res *llm.ToolResult) json.RawMessage {
	m := l.meta(res.Metadata)
	var head struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if m.ItemID == "" || json.Unmarshal(m.Item, &head) != nil || head.ID != m.ItemID || !isHosted(head.Type) && head.Type != typeSearchOutput {
		return nil
	}
	if head.Type != imageCall {
		return m.Item
	}
	for _, p := range res.Content {
		if media, ok := p.(*llm.Media); ok && len(media.Data) > 0 {
			return withField(m.Item, "result", base64.StdEncoding.EncodeToString(media.Data))
		}
	}
	return nil
}

// summarise describes a call that another vendor ran. It does so in a user message: from an assistant message the model would
// learn to fake calls.
func (l *lowering) summarise(name, input string, res *llm.ToolResult) error {
	s := "(The tool " + name + " was run by the vendor of a model"
	if input != "" && input != "{}" {
		s += " with " + input
	}
	switch {
	case res == nil:
		s += ". What it gave is not known.)"
		res = &llm.ToolResult{}
	case res.IsError:
		s += " and failed:)"
	default:
		s += " and gave:)"
	}
	content := []any{textContent(s)}
	for _, p := range res.Content {
		switch p := p.(type) {
		case *llm.Text:
			content = append(content, textContent(p.Text))
		case *llm.Media:
			c, err := mediaContent(l.r, p)
			if err != nil {
				return err
			}
			content = append(content, c)
		}
	}
	l.add(roleItem{"user", content})
	return nil
}
