package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// history converts the messages of a request, in order. They are the result of [protocol.Normalised]: a response is one message,
// followed by its results.
type history struct {
	r     *protocol.Request
	marks protocol.Marks
	ids   callIDs
	out   []any
	roles []string // of out
	shown []part   // media of results, for the message after the last of them
}

// bridge is an assistant message for formats that require one between results and a user message.
const bridge = "Done."

func messages(r *protocol.Request, marks protocol.Marks) ([]any, error) {
	h := &history{r: r, marks: marks, ids: callIDs{rule: r.Model.Compat.ToolCallIDs}, out: make([]any, 0, len(r.Messages)+2)}
	h.system()
	for i, m := range r.Messages {
		mark := h.mark(i)
		if m.Role != llm.RoleTool {
			h.showMedia()
		}
		var err error
		switch m.Role {
		case llm.RoleUser:
			err = h.user(m, mark)
		case llm.RoleSystem:
			h.update(protocol.SystemUpdate(protocol.Note(m)), mark)
		case llm.RoleAssistant:
			h.assistant(m, mark)
		case llm.RoleTool:
			err = h.results(m, mark)
		default:
			err = protocol.Invalid("a message is from user, assistant, tool or system", "message %d has no role", i)
		}
		if err != nil {
			return nil, err
		}
	}
	h.showMedia()
	return h.out, nil
}

func (h *history) mark(i int) *kind {
	if slices.Contains(h.marks.Messages, i) {
		return cached
	}
	return nil
}

func (h *history) add(role string, m any) {
	h.out, h.roles = append(h.out, m), append(h.roles, role)
}

func (h *history) lastRole() string {
	if len(h.roles) == 0 {
		return ""
	}
	return h.roles[len(h.roles)-1]
}

// addUser adds a user message, preceded by an assistant message if results must not directly precede it. It continues a user message
// before it: the templates of several models accept only one at a time.
func (h *history) addUser(content any) {
	if last, ok := h.lastUser(); ok {
		last.appendContent(content)
		return
	}
	if h.r.Model.Compat.AssistantAfterTool && h.lastRole() == "tool" {
		h.add("assistant", &message{Role: "assistant", Content: bridge})
	}
	h.add("user", &message{Role: "user", Content: content})
}

func (h *history) system() {
	var parts []part
	for i, s := range h.r.System {
		p := part{Type: "text", Text: s}
		if slices.Contains(h.marks.System, i) {
			p.CacheControl = cached
		}
		parts = append(parts, p)
	}
	if text, plain := plainText(parts); plain && text != "" {
		h.add("system", &message{Role: "system", Content: text})
	} else if !plain {
		h.add("system", &message{Role: "system", Content: parts})
	}
}

func (h *history) user(m llm.Message, mark *kind) error {
	var parts []part
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Text:
			if p.Text != "" {
				parts = append(parts, part{Type: "text", Text: p.Text})
			}
		case *llm.Media:
			q, err := h.media(p)
			if err != nil {
				return err
			}
			parts = append(parts, q)
		default:
			return protocol.Invalid("a user's message is text and media", "a message of the user holds a %T", p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	if mark != nil {
		at := len(parts) - 1
		for i, p := range slices.Backward(parts) {
			if p.Type == "text" {
				at = i
				break
			}
		}
		parts[at].CacheControl = mark
	}
	if texts, plain := plainText(parts); plain {
		h.addUser(texts)
	} else {
		h.addUser(parts)
	}
	return nil
}

// plainText joins parts that are all plain text.
func plainText(parts []part) (string, bool) {
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" || p.CacheControl != nil {
			return "", false
		}
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n"), true
}

// update is a note of the host within the history. It is appended to the preceding user message.
func (h *history) update(text string, mark *kind) {
	if last, ok := h.lastUser(); ok {
		last.appendText(text, mark)
		return
	}
	h.addUser(marked(text, mark))
}

func (h *history) lastUser() (*message, bool) {
	if h.lastRole() != "user" {
		return nil, false
	}
	m, ok := h.out[len(h.out)-1].(*message)
	return m, ok
}

func (h *history) assistant(m llm.Message, mark *kind) {
	out := &message{Role: "assistant"}
	var thought reasoning
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Reasoning:
			thought.add(h.r, p)
		case *llm.ToolCall:
			if !p.ProviderExecuted {
				out.ToolCalls = append(out.ToolCalls, h.call(p))
			}
		}
	}
	text := m.Text()
	c := &h.r.Model.Compat
	out.ReasoningDetails = thought.replayed()
	field, words, replay := thought.field(c)
	switch {
	case strings.TrimSpace(text) != "":
		out.Content = marked(text, mark)
	case len(out.ToolCalls) > 0: // null
	case c.RequireReasoning && (words != "" || len(out.ReasoningDetails) > 0):
		out.Content = ""
	default:
		return // nothing that a vendor would accept: a response that was truncated during reasoning
	}
	if replay {
		h.add("assistant", out.setReasoning(field, words))
		return
	}
	h.add("assistant", out)
}

func (h *history) call(c *llm.ToolCall) toolCall {
	args := c.Input
	switch {
	case c.Freeform:
		args = string(h.r.FreeformArguments(c))
	case strings.TrimSpace(args) == "":
		args = "{}"
	case !json.Valid([]byte(args)):
		// Vendors parse what they get back. The model still sees what it wrote.
		args = string(object("invalid_arguments", c.Input))
	}
	out := toolCall{
		ID: h.ids.of(c.ID), Type: "function",
		Function: calledFunction{Name: protocol.WireName(c.Namespace, c.Name), Arguments: args},
	}
	var meta struct {
		Extra json.RawMessage `json:"extraContent"`
	}
	protocol.MetaOf(c.Metadata, h.r.Namespace, &meta)
	out.ExtraContent = meta.Extra
	return out
}

func object(name, text string) json.RawMessage {
	return joined([]field{{name, quoted(text)}})
}

// attached replaces the text of a result that only consists of media.
const attached = "(the output is attached to the next message)"

func (h *history) results(m llm.Message, mark *kind) error {
	var last *message
	for _, p := range m.Parts {
		res, ok := p.(*llm.ToolResult)
		if !ok {
			return protocol.Invalid("a message of the role tool is results only", "a message with results holds a %T", p)
		}
		if res.ProviderExecuted {
			continue
		}
		var texts []string
		shows := false
		for _, p := range res.Content {
			switch p := p.(type) {
			case *llm.Text:
				texts = append(texts, p.Text)
			case *llm.Media:
				q, err := h.media(p)
				if err != nil {
					return err
				}
				if q.Type == "text" { // a note that it was omitted
					texts = append(texts, q.Text)
					continue
				}
				shows = true
				h.shown = append(h.shown, q)
			}
		}
		if len(texts) == 0 && shows {
			texts = []string{attached}
		}
		last = &message{Role: "tool", Content: strings.Join(texts, "\n"), ToolCallID: h.ids.of(res.ID)}
		h.add("tool", last)
	}
	if last != nil {
		last.Content = marked(last.Content.(string), mark)
	}
	return nil
}

// showMedia adds the media of the preceding results as a user message, because results can only contain text.
func (h *history) showMedia() {
	if len(h.shown) > 0 {
		h.addUser(h.shown)
		h.shown = nil
	}
}
