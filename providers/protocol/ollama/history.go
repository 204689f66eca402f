package ollama

import (
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// reasoningField identifies thoughts of this vendor. Other vendors' thoughts are not attributed to this model.
const reasoningField = "thinking"

// history converts a request's messages.
type history struct {
	r   *protocol.Request
	out []message
	// later holds the images of results: a tool message cannot contain any, so they follow after all results.
	later []message
}

func (h *history) lower() ([]message, error) {
	h.out = make([]message, 0, len(h.r.Messages)+1)
	if len(h.r.System) > 0 {
		h.out = append(h.out, message{Role: roleSystem, Content: strings.Join(h.r.System, "\n")})
	}
	for i := range h.r.Messages {
		m := &h.r.Messages[i]
		if m.Role != llm.RoleTool {
			h.flush()
		}
		var err error
		switch m.Role {
		case llm.RoleTool:
			err = h.results(m)
		case llm.RoleSystem:
			h.update(m)
		case llm.RoleUser:
			err = h.user(m)
		case llm.RoleAssistant:
			err = h.assistant(m)
		default:
			err = protocol.Invalid("", "message %d has no role", i)
		}
		if err != nil {
			return nil, err
		}
	}
	h.flush()
	return h.out, nil
}

func (h *history) flush() {
	h.out = append(h.out, h.later...)
	h.later = nil
}

// join appends a text to a content.
func join(content *string, text string) {
	if text == "" {
		return
	}
	if *content != "" {
		*content += "\n\n"
	}
	*content += text
}

func (h *history) user(m *llm.Message) error {
	out := message{Role: roleUser}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Text:
			join(&out.Content, p.Text)
		case *llm.Media:
			if err := h.media(&out, p); err != nil {
				return err
			}
		default:
			return protocol.Invalid("", "a user's message can't hold a %T", p)
		}
	}
	h.out = append(h.out, out)
	return nil
}

// update adds a note of the host to the user's turn if that is the last one: chat templates support only one system message at the
// beginning, and alternating turns.
func (h *history) update(m *llm.Message) {
	note := protocol.SystemUpdate(protocol.Note(*m))
	if n := len(h.out); n > 0 && h.out[n-1].Role == roleUser {
		join(&h.out[n-1].Content, note)
		return
	}
	h.out = append(h.out, message{Role: roleUser, Content: note})
}

func (h *history) assistant(m *llm.Message) error {
	out := message{Role: roleAssistant}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *llm.Text:
			join(&out.Content, p.Text)
		case *llm.Reasoning:
			var meta struct {
				Field string `json:"reasoningField"`
			}
			if protocol.MetaOf(p.Metadata, h.r.Namespace, &meta); meta.Field == reasoningField {
				join(&out.Thinking, p.Text)
			}
		case *llm.ToolCall:
			if !p.ProviderExecuted { // the format has no representation for tools that another vendor ran
				out.ToolCalls = append(out.ToolCalls, toolCall{ID: p.ID, Function: function{
					Name: protocol.WireName(p.Namespace, p.Name), Arguments: h.r.Arguments(p),
				}})
			}
		case *llm.ToolResult:
		case *llm.Media:
			if err := h.media(&out, p); err != nil {
				return err
			}
		default:
			return protocol.Invalid("", "an assistant's message can't hold a %T", p)
		}
	}
	if out.Content != "" || out.Thinking != "" || len(out.ToolCalls) > 0 || len(out.Images) > 0 {
		h.out = append(h.out, out)
	}
	return nil
}

func (h *history) results(m *llm.Message) error {
	for _, p := range m.Parts {
		res, ok := p.(*llm.ToolResult)
		if !ok {
			return protocol.Invalid("", "a tool's message can't hold a %T", p)
		}
		name := protocol.WireName(res.Namespace, res.Name)
		out := message{Role: roleTool, ToolName: name, ToolCallID: res.ID}
		var texts []string
		seen := message{Role: roleUser, Content: "Images in the result of " + name + ":"}
		for _, p := range res.Content {
			switch p := p.(type) {
			case *llm.Text:
				texts = append(texts, p.Text)
			case *llm.Media:
				var one message
				if err := h.media(&one, p); err != nil {
					return err
				}
				if one.Content != "" {
					texts = append(texts, one.Content)
				}
				seen.Images = append(seen.Images, one.Images...)
			default:
				return protocol.Invalid("", "a tool's result can't hold a %T", p)
			}
		}
		out.Content = strings.Join(texts, "\n")
		h.out = append(h.out, out)
		if len(seen.Images) > 0 {
			h.later = append(h.later, seen)
		}
	}
	return nil
}

// media adds a file to a message: images next to the text, text files to it. Others are replaced by a note.
func (h *history) media(to *message, m *llm.Media) error {
	c, err := protocol.ContentOf(m)
	if err != nil {
		return err
	}
	kind := protocol.Modality(c.Type)
	switch {
	case c.URL != "":
		join(&to.Content, h.r.LeaveOut(m, "only its address is known, and Ollama does not download it"))
	case kind == "image" && h.r.Model.Takes("image") && !h.r.Model.Compat.NoImages:
		to.Images = append(to.Images, c.Data)
	case kind == "text":
		join(&to.Content, strings.ToValidUTF8(string(c.Data), "\uFFFD"))
	default:
		join(&to.Content, h.r.LeaveOut(m, protocol.NotTaken))
	}
	return nil
}
